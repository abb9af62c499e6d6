#include "launcher/run/run.hpp"

#include "agent/agent.hpp"
#include "agent/guard.hpp"
#include "agent/guard_client.hpp"
#include "agent/own_endpoint.hpp"
#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"
#include "base/task_scope.hpp"
#include "launcher/run/orphaned_job.hpp"
#include "slurm/core/hostlist.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Stream = asio::posix::stream_descriptor;
using namespace std::chrono_literals;

constexpr Duration kLastCallOfReturn = 30s;

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Else the next thing opened, our socket to the guard for one, would pass for the stream that is
/// missing.
void open_missing_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // the lowest free one: `stream`
  }
}

bool ends_the_job(const LaunchPlan& plan, int signal) {
  const bool is_user = signal == SIGUSR1 || signal == SIGUSR2;
  if (is_user && !plan.slurm_step.empty()) return true;
  return std::ranges::find(plan.signals_to_handle, signal) != plan.signals_to_handle.end();
}

Inherited inherited() {
  Inherited out;
  out.environment = environment_entries();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) out.open_files_max = files.rlim_cur;
  return out;
}

/// The next signal, unless none is pending.
std::optional<int> next_signal(Stream& signals) {
  signalfd_siginfo info{};
  const ssize_t got = ::read(signals.native_handle(), &info, sizeof info);
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

/// Those that have come.
void heed_pending(Agent& agent, const LaunchPlan& plan, Stream& signals) {
  while (const auto signal = next_signal(signals)) {
    if (*signal == SIGCHLD) {
      // Behind the pidfds that are ready by now, which know the order of the deaths.
      asio::post(signals.get_executor(), [&agent] { agent.reap(); });
    } else if (ends_the_job(plan, *signal)) {
      agent.stop_by(*signal);
    } else {
      agent.pass_on(*signal);
    }
  }
}

asio::awaitable<void> heed_signals(Agent& agent, const LaunchPlan& plan, Stream signals) {
  // Slurm signals workers and agent alike: of a worker that dies of a notice the reason is here.
  agent.before_deaths([&] { heed_pending(agent, plan, signals); });
  for (;;) {
    co_await signals.async_wait(Stream::wait_read, kTuple);
    heed_pending(agent, plan, signals);
  }
}

asio::awaitable<void> await_agent(Agent& agent, TaskScope& all, int& status) {
  status = co_await agent.run();
  all.cancel();
}

/// Throws what the agent or a listener threw, once none of them runs any more.
asio::awaitable<void> be_the_agent(
    Agent& agent, GuardClient& guard, const LaunchPlan& plan, Stream signals, int& status) {
  TaskScope all(co_await asio::this_coro::executor);
  all.spawn(heed_signals(agent, plan, std::move(signals)));
  all.spawn(guard.end_with_it());
  all.spawn(guard.serve());
  all.spawn(await_agent(agent, all, status));
  co_await all.join();
}

/// 75 where the operating system refused, which may pass; 2 where a value makes no sense.
int status_of(const Error& error) {
  return error.is(Errc::kIo) || error.is(Errc::kTimedOut) ? kExitTryAgain : kExitUsage;
}

/// How it came out whether this node is at the endpoint.
struct Arrival {
  bool is_at_endpoint = false;
  std::optional<int> stopped_by;  // a signal came first
};

asio::awaitable<void> stop_arriving(
    const LaunchPlan& plan, Stream& signals, TaskScope& all, Arrival& arrival) {
  while (!arrival.stopped_by) {
    const auto [cancelled] = co_await signals.async_wait(Stream::wait_read, kTuple);
    if (cancelled) co_return;
    const auto signal = next_signal(signals);
    if (signal && ends_the_job(plan, *signal)) arrival.stopped_by = signal;
  }
  all.cancel();
}

asio::awaitable<void> probe_endpoint(
    const RendezvousPlan& rendezvous, TaskScope& all, Arrival& arrival) {
  arrival.is_at_endpoint = co_await is_at_endpoint(rendezvous);
  all.cancel();
}

asio::awaitable<void> arrive(
    GuardClient& guard, const LaunchPlan& plan, Stream& signals, Arrival& arrival) {
  TaskScope all(co_await asio::this_coro::executor);
  all.spawn(stop_arriving(plan, signals, all, arrival));
  all.spawn(guard.end_with_it());
  all.spawn(probe_endpoint(plan.rendezvous, all, arrival));
  co_await all.join();
}

/// Finds out whether the endpoint, a name perhaps, is this node's, as far as that can be known now;
/// signals do not wait for it. Yields an exit status if one of them came.
std::optional<int> recognize_endpoint(
    asio::io_context& context, GuardClient& guard, LaunchPlan& plan, Stream& signals) {
  if (plan.rendezvous.bootstraps == Bootstraps::kNo || !plan.rendezvous.has_others())
    return std::nullopt;
  const TimePoint began = Clock::now();
  Arrival arrival;
  std::exception_ptr thrown;
  asio::co_spawn(
      context, arrive(guard, plan, signals, arrival), [&thrown](const std::exception_ptr& what) {
        thrown = what;
      });
  context.run();
  context.restart();
  if (thrown) std::rethrow_exception(thrown);
  if (arrival.stopped_by) return exit_status_of_signal(*arrival.stopped_by);
  plan.rendezvous.recognizes_endpoint = arrival.is_at_endpoint;
  plan.rendezvous.join_timeout -= std::min(plan.rendezvous.join_timeout, Clock::now() - began);
  return std::nullopt;
}

/// All nodes slept, perhaps: where they share a console the first one alone says it, and of another
/// the leader says that it was silent.
void report_return(const LaunchPlan& plan) {
  if (plan.shares_console && plan.rendezvous.bootstraps == Bootstraps::kNo) return;
  write_stderr(fmt::format(
      "ddprun: {} was suspended and lost its lease, so the others may have gone on without it, and "
      "its workers were killed; next: it takes part again\n",
      host_name()));
}

/// For the next submission: Slurm may not have noticed, and give them again.
void report_silent(const std::set<std::string>& silent) {
  if (silent.empty()) return;
  const std::vector<std::string> hosts(silent.begin(), silent.end());
  write_stderr(fmt::format(
      "ddprun: fell silent and did not come back: {0}; `sbatch --exclude={0}` leaves it out next "
      "time\n",
      fold_hostlist(hosts)));
}

Result<int> run_agent(
    LaunchPlan plan, const RequeuePlan& again, sigset_t signals, AgentBegins began) {
  const sigset_t ends = signals;
  ::sigaddset(&signals, SIGCHLD);
  Descriptor signal_queue(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signal_queue) return make_errno_error(errno, "cannot wait for signals");
  asio::io_context context(1);
  Stream signal_stream(context, signal_queue.release());
  if (began.returns) {
    report_return(plan);
    // The others of the last round come back as well, some seconds apart.
    const RendezvousPlan& rendezvous = plan.rendezvous;
    const Duration return_timeout = rendezvous.regather_timeout.value_or(rendezvous.join_timeout);
    plan.rendezvous.last_call =
        std::max(rendezvous.last_call, std::min(return_timeout, kLastCallOfReturn));
  }
  GuardClient guard(context, std::move(began));

  const auto stopped = recognize_endpoint(context, guard, plan, signal_stream);
  if (stopped) return *stopped;
  auto agent = Agent::open(context, plan, guard, inherited());
  if (!agent) return agent.error();
  int status = kExitDefect;
  std::exception_ptr thrown;
  asio::co_spawn(
      context,
      be_the_agent(**agent, guard, plan, std::move(signal_stream), status),
      [&thrown](const std::exception_ptr& what) { thrown = what; });
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  if ((*agent)->speaks_for_job()) {
    if (!plan.slurm_step.empty()) report_silent((*agent)->silent_hosts());
    const bool starts_again = requeue(
        again,
        {.exit_status = status,
         .notice_status = plan.notice.exit_status,
         .stopped_by = (*agent)->stopped_by()});
    const auto ended =
        starts_again ? std::nullopt
                     : end_orphaned_job(again.job, plan.batch_host, (*agent)->silent_hosts(), ends);
    if (ended) (*agent)->record_after_end("batch_host_lost", *ended);
  }
  return status;
}

/// The same, with what Asio throws where the operating system refuses it a descriptor or memory.
Result<int> try_run_agent(
    const LaunchPlan& plan, const RequeuePlan& again, const sigset_t& signals, AgentBegins began) {
  try {
    return run_agent(plan, again, signals, std::move(began));
  } catch (const boost::system::system_error& thrown) {
    if (thrown.code().category() != boost::system::system_category()) throw;
    return make_errno_error(thrown.code().value(), "the operating system refuses");
  }
}

}  // namespace

sigset_t block_signals_of(const LaunchPlan& plan) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : plan.signals_to_handle) {
    // nohup(1) asks that the end of the terminal be no end of the job.
    if (signal == SIGHUP && is_ignored(SIGHUP)) continue;
    ::sigaddset(&signals, signal);
  }
  // Notices under Slurm, and else for workers alone.
  ::sigaddset(&signals, SIGUSR1);
  ::sigaddset(&signals, SIGUSR2);
  sigset_t blocked = signals;
  ::sigaddset(&blocked, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  // Ignored, as some parents leave it, it would have the kernel reap our children for us.
  ::signal(SIGCHLD, SIG_DFL);
  return signals;
}

int run(const LaunchPlan& plan, const RequeuePlan& again) {
  open_missing_streams();
  // A reader of our output that has gone is no reason to end the job, nor the guard.
  ::signal(SIGPIPE, SIG_IGN);
  // Under a limit on the size of files (ulimit -f) a write of ours fails; the job goes on.
  ::signal(SIGXFSZ, SIG_IGN);
  const sigset_t signals = block_signals_of(plan);
  auto process = fork_agent(signals);
  if (const auto* guard = std::get_if<GuardEnded>(&process)) return guard->exit_status;
  const auto status =
      try_run_agent(plan, again, signals, std::move(std::get<AgentBegins>(process)));
  if (status) return *status;
  write_stderr(fmt::format("ddprun: {}\n", status.error().detail));
  return status_of(status.error());
}

}  // namespace ddprun
