#include "agent/agent_main.hpp"

#include "agent/agent.hpp"
#include "agent/console.hpp"
#include "agent/guard_client.hpp"
#include "agent/launch_directory.hpp"
#include "agent/own_endpoint.hpp"
#include "agent/own_key.hpp"
#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/errand.hpp"
#include "rendezvous/loop_check.hpp"
#include "rendezvous/stream_of.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Stream = asio::posix::stream_descriptor;
using namespace std::chrono_literals;

constexpr Duration kLastCallOfReturn = 30s;
/// How long the log directory may take to be opened until a person is told.
constexpr Duration kQuietDisk = 5s;

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
  ssize_t got = 0;
  do {
    got = ::read(signals.native_handle(), &info, sizeof info);
  } while (got < 0 && errno == EINTR);  // it is reported as readable only once
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

/// Runs `work` to its end. Throws what it throws.
void run_to_end(asio::io_context& context, asio::awaitable<void> work) {
  std::exception_ptr thrown;
  asio::co_spawn(
      context, std::move(work), [&thrown](const std::exception_ptr& what) { thrown = what; });
  context.run();
  context.restart();
  if (thrown) std::rethrow_exception(thrown);
}

/// Work before there is an agent, which may wait for the name service or a disk. It ends the scope.
using EarlyWork = std::function<asio::awaitable<void>(TaskScope& all)>;

asio::awaitable<void> stop_early(
    const LaunchPlan& plan, Stream& signals, TaskScope& all, std::optional<int>& stopped_by) {
  while (!stopped_by) {
    const auto [cancelled] = co_await signals.async_wait(Stream::wait_read, kTuple);
    if (cancelled) co_return;
    const auto signal = next_signal(signals);
    if (signal && ends_the_job(plan, *signal)) stopped_by = signal;
  }
  all.cancel();
}

asio::awaitable<void> work_early(
    GuardClient& guard,
    const LaunchPlan& plan,
    Stream& signals,
    const EarlyWork& work,
    std::optional<int>& stopped_by) {
  TaskScope all(co_await asio::this_coro::executor);
  all.spawn(stop_early(plan, signals, all, stopped_by));
  all.spawn(guard.end_with_it());
  all.spawn(work(all));
  co_await all.join();
}

asio::awaitable<void> probe_endpoint(RendezvousPlan& rendezvous, TaskScope& all) {
  const auto addresses = co_await resolve_endpoint(rendezvous);
  for (const Address& address : addresses) {
    rendezvous.endpoint_addresses.push_back(host_of(address));
  }
  rendezvous.recognizes_endpoint = is_at_endpoint(rendezvous, addresses);
  all.cancel();
}

/// Finds out where the endpoint, which may be a host name, is, and stores the result in `plan`, if
/// this node may listen there. Yields the signal that ended that, if one did.
std::optional<int> find_endpoint(
    asio::io_context& context, GuardClient& guard, Stream& signals, LaunchPlan& plan) {
  RendezvousPlan& rendezvous = plan.rendezvous;
  if (rendezvous.bootstraps == Bootstraps::kNo || !rendezvous.has_others()) return std::nullopt;
  const TimePoint began = Clock::now();
  std::optional<int> stopped_by;
  const EarlyWork probe = [&](TaskScope& all) { return probe_endpoint(rendezvous, all); };
  run_to_end(context, work_early(guard, plan, signals, probe, stopped_by));
  rendezvous.join_timeout -= std::min(rendezvous.join_timeout, Clock::now() - began);
  return stopped_by;
}

/// Waits for this node's key. Yields the signal that ended the wait, if one did.
std::optional<int> finish_key(
    asio::io_context& context,
    GuardClient& guard,
    Stream& signals,
    const LaunchPlan& plan,
    OwnKey& key) {
  std::optional<int> stopped_by;
  const EarlyWork wait = [&](TaskScope& all) { return key.wait(all); };
  run_to_end(context, work_early(guard, plan, signals, wait, stopped_by));
  return stopped_by;
}

asio::awaitable<void> await_directory(
    const LaunchPlan& plan, std::optional<Result<LaunchDirectory>>& out, TaskScope& all) {
  auto opening = Errand<LaunchDirectory>::begin(
      "cannot open the log directory",
      [streams = plan.streams, run_id = plan.run_id, mask = own_umask()] {
        return open_launch_directory(streams, run_id, mask);
      });
  if (opening) {
    Timer limit(co_await asio::this_coro::executor, Clock::now() + kQuietDisk);
    out = co_await (*opening)->await(limit);
    // Else a signal has come first.
    if (!out && Clock::now() >= limit.expiry()) {
      report(
          "the disk of the log directory {} does not respond; next: the job starts once it does",
          plan.streams.log_directory.value_or("under $TMPDIR"));
      limit.expires_at(kNever);
      out = co_await (*opening)->await(limit);
    }
  } else {
    out = opening.error();
  }
  all.cancel();
}

/// The directory of this launch; none if a signal came first, which is stored in `stopped_by`.
std::optional<Result<LaunchDirectory>> open_directory(
    asio::io_context& context,
    GuardClient& guard,
    Stream& signals,
    const LaunchPlan& plan,
    std::optional<int>& stopped_by) {
  if (plan.streams.no_files) return LaunchDirectory();
  std::optional<Result<LaunchDirectory>> directory;
  const EarlyWork open = [&](TaskScope& all) { return await_directory(plan, directory, all); };
  run_to_end(context, work_early(guard, plan, signals, open, stopped_by));
  return directory;
}

/// Waits for the disk only a moment.
void try_to_remove(const LaunchDirectory& directory) {
  auto removal = Errand<bool>::begin("cannot remove a directory", [directory] {
    remove_launch_directory(directory);
    return Result<bool>(true);
  });
  if (removal) static_cast<void>((*removal)->answer_within(kEndPatience));
}

/// Handles the signals that are pending.
void heed_pending(Agent& agent, const LaunchPlan& plan, Stream& signals) {
  while (const auto signal = next_signal(signals)) {
    if (*signal == SIGCHLD) {
      // After the pidfds that are ready by now, which know the order of the deaths.
      asio::post(signals.get_executor(), [&agent] { agent.reap(); });
    } else if (ends_the_job(plan, *signal)) {
      agent.stop_by(*signal);
    } else {
      agent.pass_on(*signal);
    }
  }
}

asio::awaitable<void> heed_signals(Agent& agent, const LaunchPlan& plan, Stream& signals) {
  // Slurm signals workers and agent at once: the agent must know of a notice before it handles the
  // death of a worker that the notice ended.
  agent.before_deaths([&] { heed_pending(agent, plan, signals); });
  for (;;) {
    co_await signals.async_wait(Stream::wait_read, kTuple);
    heed_pending(agent, plan, signals);
  }
}

asio::awaitable<void> await_end(Agent& agent, TaskScope& all, int& status) {
  status = co_await agent.run();
  all.cancel();
}

/// Throws what the agent or a listener threw, once none of them runs any more.
asio::awaitable<void> work(
    Agent& agent, GuardClient& guard, const LaunchPlan& plan, Stream& signals, int& status) {
  TaskScope all(co_await asio::this_coro::executor);
  all.spawn(heed_signals(agent, plan, signals));
  all.spawn(guard.end_with_it());
  all.spawn(guard.serve());
  all.spawn(await_end(agent, all, status));
  co_await all.join();
}

/// If the nodes share a console, only the bootstrap leader reports this: all nodes may have been
/// suspended, and the leader reports each node that it has not heard.
void report_return(const LaunchPlan& plan) {
  if (plan.shares_console && plan.rendezvous.bootstraps == Bootstraps::kNo) return;
  report(
      "{} was suspended and lost its lease, so the others may have continued without it, and "
      "its workers were killed; next: it takes part again",
      host_name());
}

/// The other nodes of the last round return as well, some seconds apart.
void wait_for_others(RendezvousPlan& rendezvous) {
  const Duration return_timeout = rendezvous.regather_timeout.value_or(rendezvous.join_timeout);
  rendezvous.last_call =
      std::max(rendezvous.last_call, std::min(return_timeout, kLastCallOfReturn));
}

void conclude_job(Agent& agent, int status, const AfterJob& after_job) {
  if (!agent.speaks_for_job()) return;
  const auto late = after_job(
      {.exit_status = status,
       .stopped_by = agent.stopped_by(),
       .silent_hosts = agent.silent_hosts()});
  if (late) agent.record_after_end(late->event, late->text);
}

Result<int> run_job(
    asio::io_context& context,
    GuardClient& guard,
    Stream& signals,
    LaunchPlan& plan,
    const AfterJob& after_job) {
  auto key = OwnKey::begin(plan);
  if (!key) return key.error();
  auto stopped_by = find_endpoint(context, guard, signals, plan);
  if (stopped_by) return exit_status_of_signal(*stopped_by);
  Consoles consoles;
  // Now, so that no error from here on waits for a reader.
  if (const auto taken = consoles.take_log(); !taken) return taken.error();
  stopped_by = finish_key(context, guard, signals, plan, *key);
  if (stopped_by) return exit_status_of_signal(*stopped_by);
  const std::optional<Result<AuthKey>>& own_key = key->made();
  DDPRUN_CHECK(own_key.has_value());
  if (!*own_key) return own_key->error();
  auto directory = open_directory(context, guard, signals, plan, stopped_by);
  if (stopped_by) return exit_status_of_signal(*stopped_by);
  DDPRUN_CHECK(directory);
  if (!*directory) return directory->error();
  auto agent = Agent::open(
      context,
      plan,
      guard,
      {.consoles = consoles, .directory = **directory, .key = **own_key},
      inherited());
  if (!agent) {
    try_to_remove(**directory);
    return agent.error();
  }
  int status = kExitDefect;
  run_to_end(context, work(**agent, guard, plan, signals, status));
  conclude_job(**agent, status, after_job);
  return status;
}

/// 75 if the operating system refused, which may be temporary; 2 if a value is invalid.
int status_of(const Error& error) {
  return error.is(Errc::kIo) || error.is(Errc::kTimedOut) ? kExitTryAgain : kExitUsage;
}

Result<int> run_agent(
    LaunchPlan& plan, sigset_t signals, AgentBegins began, const AfterJob& after_job) {
  ::sigaddset(&signals, SIGCHLD);
  Descriptor signal_queue(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signal_queue) return make_errno_error(errno, "cannot wait for signals");
  asio::io_context context(1);
  if (const auto checked = check_timers(context); !checked) return checked.error();
  Stream signal_stream = stream_of(context, std::move(signal_queue));
  if (began.returns) {
    report_return(plan);
    wait_for_others(plan.rendezvous);
  }
  GuardClient guard(context, std::move(began));
  auto status = run_job(context, guard, signal_stream, plan, after_job);
  guard.leave(status ? *status : status_of(status.error()));
  return status;
}

/// The same, but an error of the operating system that Asio throws is an Error.
Result<int> try_run_agent(
    LaunchPlan& plan, const sigset_t& signals, AgentBegins began, const AfterJob& after_job) {
  try {
    return run_agent(plan, signals, std::move(began), after_job);
  } catch (const boost::system::system_error& thrown) {
    if (thrown.code().category() != boost::system::system_category()) throw;
    return make_errno_error(thrown.code().value(), "the operating system refuses");
  }
}

}  // namespace

int agent_main(LaunchPlan plan, sigset_t signals, AgentBegins began, const AfterJob& after_job) {
  const auto status = try_run_agent(plan, signals, std::move(began), after_job);
  if (status) return *status;
  report("{}", status.error().detail);
  return status_of(status.error());
}

}  // namespace ddprun
