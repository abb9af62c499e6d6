#include "agent/guard.hpp"

#include "agent/core/process_end.hpp"
#include "agent/descendants.hpp"
#include "agent/proc.hpp"
#include "agent/resumption.hpp"
#include "base/error.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/node_range.hpp"
#include "base/report_in_place.hpp"
#include "base/signal_name.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kUnkillableAfter = 5s;
constexpr auto kGivenUpPatience = 500ms;  // for processes for which the agent has waited as long
/// From the agent's last word to its exit, before the guard looks what it waits for.
constexpr auto kExitPatience = 500ms;
constexpr int kPriority = -5;

/// What the guard waits on; created before the fork, so that a failure starts nothing.
struct Watch {
  Descriptor signals;  // signalfd
  Descriptor timer;    // timerfd, for the lease
  Descriptor orders;   // from the agent
  Resumption resumption;
  SharedLease* lease = nullptr;
};

/// The attributes of this process before it becomes the guard, restored in each agent.
class Ordinary {
 public:
  Ordinary() : priority_(::getpriority(PRIO_PROCESS, 0)) {
    has_files_ = ::getrlimit(RLIMIT_NOFILE, &files_) == 0;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked_);
  }

  /// Gives the guard a higher priority than what it guards, and keeps its pages in memory, if that
  /// is allowed. Pages are locked when they are touched, so the locked memory stays small.
  void leave() const {
    ::setpriority(PRIO_PROCESS, 0, kPriority);
    ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
    if (!has_files_) return;
    rlimit files = files_;  // it holds a lifeline of every node
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }

  /// For a child of the guard. Locked memory is not inherited.
  void restore() const {
    ::setpriority(PRIO_PROCESS, 0, priority_);
    if (has_files_) ::setrlimit(RLIMIT_NOFILE, &files_);
    ::sigprocmask(SIG_SETMASK, &blocked_, nullptr);
  }

 private:
  int priority_;
  sigset_t blocked_{};
  rlimit files_{};
  bool has_files_ = false;
};

/// The lifelines that the agent told the guard to hold.
class Held {
 public:
  /// Takes the memory for all of them.
  Held() { lines_.reserve(kLinesMax); }

  /// False if a lifeline could not be taken.
  bool take(GuardOrders& orders) {
    bool took_all = true;
    for (std::size_t i = 0; i < orders.count; ++i) {
      took_all &= take(orders.orders[i], std::move(orders.copies[i]));
    }
    return took_all;
  }

  void say_goodbye() const {
    for (const One& one : lines_) {
      if (one.is_end) send_goodbye(one.line.get());
    }
  }

  void let_go_all() { lines_.clear(); }

 private:
  /// One for each node, or, while the leader changes, two.
  static constexpr std::size_t kLinesMax = std::size_t{2} * NodeRange::kMaxNodes;

  struct One {
    int number = -1;  // its descriptor number in the agent
    Descriptor line;
    bool is_end = false;
  };

  bool take(const GuardOrder& order, Descriptor copy) {
    if (order.kind == GuardOrder::Kind::kLeaseShortened || order.descriptor < 0) return true;
    let_go(order.descriptor);
    if (order.kind == GuardOrder::Kind::kLetGo) return true;
    if (!copy || lines_.size() == lines_.capacity()) return false;
    lines_.push_back(
        {.number = order.descriptor,
         .line = std::move(copy),
         .is_end = order.kind == GuardOrder::Kind::kHoldEnd});
    return true;
  }

  void let_go(int number) {
    const auto found = std::ranges::find(lines_, number, &One::number);
    if (found == lines_.end()) return;
    *found = std::move(lines_.back());
    lines_.pop_back();
  }

  std::vector<One> lines_;
};

/// How the agent ended: its wait status, or none if the lease ran out.
struct AgentEnd {
  std::optional<int> status;
  bool was_suspended = false;  // the lease ran out while every process here was stopped
  bool is_reaped = false;      // its pid may belong to another process by now
  // It said how it ends, and one of its threads waits there in the kernel; none: it does not.
  std::optional<KernelName> stuck_in = std::nullopt;
};

class Guard {
 public:
  Guard(pid_t agent, Watch watch, Held& held)
      : agent_(agent), watch_(std::move(watch)), held_(held) {}

  /// Waits until the agent has ended, or must be killed.
  AgentEnd await_agent() {
    for (;;) {
      arm();
      std::array<pollfd, 4> waits = {
          {{.fd = watch_.signals.get(), .events = POLLIN, .revents = 0},
           {.fd = watch_.orders.get(), .events = POLLIN, .revents = 0},
           {.fd = watch_.timer.get(), .events = POLLIN, .revents = 0},
           {.fd = watch_.resumption.descriptor(), .events = POLLIN, .revents = 0}}};
      ::poll(waits.data(), waits.size(), patience_ms());
      if (watch_.resumption.take()) lease_when_resumed_ = watch_.lease->get();
      const bool is_over = lease_is_over();
      const auto ended = is_over ? std::nullopt : heed_signals();
      take_orders();  // no order can arrive after its end
      if (is_over || (ended && is_by_lease(*ended))) {
        return {
            .status = std::nullopt,
            .was_suspended = was_suspended(Clock::now()),
            .is_reaped = ended.has_value()};
      }
      if (ended) return {.status = ended, .is_reaped = true};
      if (const auto left = left_without_ending()) return *left;
      if ((waits[1].revents & POLLHUP) != 0) watch_.orders.reset();  // SIGCHLD is on its way
    }
  }

  void take_orders() {
    while (watch_.orders && receive_orders(watch_.orders.get(), orders_)) {
      if (!held_.take(orders_)) complain();
    }
  }

  /// Whether the agent's descendants are to live on. Not if it was killed while it ended.
  bool keeps_leftovers(const AgentEnd& end) const {
    return end.status && WIFEXITED(*end.status) && watch_.lease->keeps_leftovers();
  }

  /// Whether the agent ended so that another one takes its place.
  bool agent_returns() const { return watch_.lease->agent_returns(); }

  /// How long SIGKILL may take.
  Duration kill_patience() const {
    return watch_.lease->gave_up() ? Duration(kGivenUpPatience) : Duration(kUnkillableAfter);
  }

 private:
  /// On CLOCK_BOOTTIME, so that a lease that ended while the machine was suspended is seen at once.
  void arm() {
    const TimePoint until = watch_.lease->get();
    if (until == armed_for_) return;
    armed_for_ = until;
    const itimerspec when = expiry_at(until);
    ::timerfd_settime(watch_.timer.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  int patience_ms() const {
    if (!leaves_by_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*leaves_by_ - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }

  /// How the agent has ended but for a thread that cannot: exit waits for a write to a disk that
  /// does not respond.
  std::optional<AgentEnd> left_without_ending() {
    const auto status = watch_.lease->exit_status();
    if (!status) return std::nullopt;
    const TimePoint now = Clock::now();
    if (!leaves_by_) leaves_by_ = now + kExitPatience;
    if (now < *leaves_by_) return std::nullopt;
    leaves_by_ = now + kExitPatience;
    const auto stuck_in = is_ending(agent_) ? uninterruptible_wait(agent_) : std::nullopt;
    if (!stuck_in) return std::nullopt;
    return AgentEnd{.status = W_EXITCODE(*status, 0), .stuck_in = stuck_in};
  }

  void complain() {
    watch_.lease->set_guard_is_full();
    if (std::exchange(has_complained_, true)) return;
    report_in_place(
        "the guard may not open as many files as there are nodes: if this agent is killed, "
        "some nodes wait for its lease; raise the limit (ulimit -Hn)");
  }

  bool lease_is_over() const { return Clock::now() >= watch_.lease->get(); }

  /// The agent has a timer of its own (death_timer.hpp), which may fire first.
  bool is_by_lease(int status) const {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && lease_is_over();
  }

  /// Whether the lease ran out because nothing ran here, not even the guard: the guard was resumed
  /// after the last renewal of the lease, or sees its end late.
  bool was_suspended(TimePoint now) const {
    const TimePoint until = watch_.lease->get();
    return lease_when_resumed_ == until || Resumption::is_late(until, now);
  }

  std::optional<int> heed_signals() {
    std::optional<int> ended;
    signalfd_siginfo info{};
    while (::read(watch_.signals.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) {
        ended = reap();
        if (ended) return ended;
      } else {
        ::kill(agent_, static_cast<int>(info.ssi_signo));  // not reaped: the pid is still its own
      }
    }
    return ended;
  }

  /// Reaps every child that has ended, including adopted orphans (as PID 1 of a container, all of
  /// its orphans). Returns the agent's status once the agent is among them.
  std::optional<int> reap() const {
    std::optional<int> ended;
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid == agent_) ended = status;
      if (pid == 0 || (pid < 0 && errno != EINTR)) return ended;
    }
  }

  pid_t agent_;
  Watch watch_;
  TimePoint armed_for_ = kNever;
  std::optional<TimePoint> lease_when_resumed_;
  std::optional<TimePoint> leaves_by_;  // the agent has said how it ends, and is to have ended
  Held& held_;
  GuardOrders orders_;
  bool has_complained_ = false;
};

bool is_a_defect(int signal) {
  return signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL || signal == SIGSYS;
}

/// What the survivor of guard and agent knows to have ended. `adopts`: it adopts orphans, so it has
/// seen every process of the job.
const char* what_was_killed(bool adopts) {
  return adopts ? "every process of the job on this node was killed"
                : "the workers on this node were killed, but perhaps not all that they started";
}

/// Prints why the job ended here, unless the agent did, and returns the exit status. `adopts`: this
/// process got the workers of the agent when that ended.
int conclude(pid_t agent, std::optional<int> end, bool adopts) {
  const char* const killed = what_was_killed(adopts);
  if (!end) {
    report_in_place(
        "this node's lease ran out, and the agent (pid {}) did not stop the workers: it is "
        "stopped or gets no CPU time; {}, since the other nodes may continue without it; start "
        "ddprun here again to take part; exit status {}",
        agent,
        killed,
        kExitTryAgain);
    return kExitTryAgain;
  }
  if (WIFEXITED(*end)) return WEXITSTATUS(*end);
  const int signal = WTERMSIG(*end);
  const int exit_status = is_a_defect(signal) ? kExitDefect : exit_status_of_signal(signal);
  report_in_place(
      "the agent (pid {}) was ended by {}; {}; exit status {}",
      agent,
      signal_name(signal),  // so short that the string needs no memory from the heap
      killed,
      exit_status);
  return exit_status;
}

void report_unkillable(const Spared& spared) {
  DescendantWalk left(::getpid(), Search::kThorough, spared);
  while (const auto pid = left.next()) {
    const auto stuck_in = uninterruptible_wait(*pid);
    report_in_place(
        "pid {} does not end, even by SIGKILL ({}{}); it is left",
        *pid,
        stuck_in ? "waits for a disk or a device, in " : "is it ours to kill?",
        stuck_in ? stuck_in->data() : "");
  }
}

/// Waits until the agent has ended, and kills what is left of it. Returns the exit status; none if
/// the whole node was suspended past its lease and another agent is to take part in its place.
std::optional<int> watch_agent(
    pid_t agent, Watch watch, Held& held, const Spared& spared, bool adopts) {
  Guard guard(agent, std::move(watch), held);
  const AgentEnd end = guard.await_agent();
  // Before its workers: it must not start another one, nor take their deaths for a failure.
  if (!end.is_reaped) ::kill(agent, SIGKILL);
  if (end.stuck_in) {
    report_in_place(
        "the agent (pid {}) cannot end: a thread of it waits for a disk that does not respond (in "
        "{}); leaving it; exit status {}",
        agent,
        end.stuck_in->data(),
        WEXITSTATUS(end.status.value_or(0)));
    return conclude(agent, end.status, adopts);
  }
  if (guard.keeps_leftovers(end)) return conclude(agent, end.status, adopts);
  const bool none_is_left = kill_descendants(Clock::now() + guard.kill_patience(), spared);
  guard.take_orders();  // from an agent that was alive until now
  if (!none_is_left) {
    report_unkillable(spared);
  } else if (adopts) {  // else none is left that it can see
    held.say_goodbye();
  }
  const bool returns = end.was_suspended || guard.agent_returns();
  if (returns && none_is_left) return std::nullopt;
  return conclude(agent, end.status, adopts);
}

Result<Watch> open_watch(sigset_t signals, Descriptor orders) {
  ::sigaddset(&signals, SIGCHLD);
  Watch watch;
  watch.signals = Descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  watch.timer = Descriptor(::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!watch.signals || !watch.timer) return make_errno_error(errno, "cannot watch the agent");
  watch.orders = std::move(orders);
  const auto lease = SharedLease::create();
  if (!lease) return lease.error();
  watch.lease = *lease;
  return watch;
}

GuardEnded refuse(const Error& error) {
  report("{}", error.detail);
  return {.exit_status = kExitTryAgain};
}

}  // namespace

std::variant<AgentBegins, GuardEnded> fork_agent(const sigset_t& signals) {
  const Ordinary ordinary;
  // Children that this process had before it became ddprun by exec, as in `tensorboard & exec
  // ddprun`. They are not part of the job.
  const auto earlier = descendants_of(::getpid(), Search::kQuick);
  Held held;
  const bool adopts = become_subreaper();  // before there can be orphans
  bool took_part = false;
  for (bool returns = false;; returns = true) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return refuse(make_errno_error(errno, "cannot make a pair of sockets"));
    }
    Descriptor of_the_agent(ends[0]);
    auto watch = open_watch(signals, Descriptor(ends[1]));
    if (!watch) return refuse(watch.error());

    std::fflush(nullptr);  // or both processes would write the buffered output
    const pid_t agent = ::fork();
    if (agent < 0) return refuse(make_process_error(errno, "cannot start the agent's process"));
    if (agent == 0) {
      if (returns) ordinary.restore();
      become_subreaper();  // not inherited by fork
      // If the guard is killed while the agent is stopped, SIGCONT wakes it, and it cleans up.
      ::prctl(PR_SET_PDEATHSIG, SIGCONT);
      ::prctl(PR_SET_NAME, "ddprun-agent");
      return AgentBegins{
          .guard = std::move(of_the_agent),
          .lease = watch->lease,
          .took_part = took_part,
          .returns = returns};
    }
    of_the_agent.reset();
    ordinary.leave();
    const SharedLease& lease = *watch->lease;  // outlives the watch
    const auto status =
        watch_agent(agent, *std::move(watch), held, {.families = earlier, .groups = {}}, adopts);
    if (status) return GuardEnded{.exit_status = *status};
    held.let_go_all();
    took_part |= lease.took_part();
  }
}

void end_without_guard(const std::set<int>& ends) {
  const bool adopts = is_subreaper();
  const bool none_is_left = kill_descendants(Clock::now() + kUnkillableAfter);
  // If it adopts nothing, a process that it cannot see may be left.
  if (none_is_left && adopts) std::ranges::for_each(ends, send_goodbye);
  report_in_place(
      "the guard, the process that was started, has ended (killed?); {}{}",
      what_was_killed(adopts),
      none_is_left ? "" : "; some processes do not end, even by SIGKILL");
  // Threads may be in the middle of a write, and no parent is left to get a status.
  ::_exit(kExitDefect);
}

}  // namespace ddprun
