#include "agent/agent_main.hpp"

#include "agent/agent.hpp"
#include "agent/guard_client.hpp"
#include "agent/own_endpoint.hpp"
#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <memory>
#include <utility>

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ddprun {
namespace {

using Stream = asio::posix::stream_descriptor;
using namespace std::chrono_literals;

constexpr Duration kLastCallOfReturn = 30s;

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

/// Runs `work` to its end. Throws what it throws.
void run_to_end(asio::io_context& context, asio::awaitable<void> work) {
  std::exception_ptr thrown;
  asio::co_spawn(
      context, std::move(work), [&thrown](const std::exception_ptr& what) { thrown = what; });
  context.run();
  context.restart();
  if (thrown) std::rethrow_exception(thrown);
}

/// Result of checking whether the endpoint is local.
struct Arrival {
  bool is_at_endpoint = false;
  std::optional<int> stopped_by;  // a signal ended the check
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

/// Checks whether the endpoint, which may be a host name, is local, and stores the result in
/// `plan`. Yields the signal that ended the check, if one did.
std::optional<int> recognize_endpoint(
    asio::io_context& context, GuardClient& guard, Stream& signals, LaunchPlan& plan) {
  RendezvousPlan& rendezvous = plan.rendezvous;
  if (rendezvous.bootstraps == Bootstraps::kNo || !rendezvous.has_others()) return std::nullopt;
  const TimePoint began = Clock::now();
  Arrival arrival;
  run_to_end(context, arrive(guard, plan, signals, arrival));
  rendezvous.recognizes_endpoint = arrival.is_at_endpoint;
  rendezvous.join_timeout -= std::min(rendezvous.join_timeout, Clock::now() - began);
  return arrival.stopped_by;
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

Result<int> run_agent(
    LaunchPlan& plan, sigset_t signals, AgentBegins began, const AfterJob& after_job) {
  ::sigaddset(&signals, SIGCHLD);
  Descriptor signal_queue(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signal_queue) return make_errno_error(errno, "cannot wait for signals");
  asio::io_context context(1);
  Stream signal_stream(context, signal_queue.release());
  if (began.returns) {
    report_return(plan);
    wait_for_others(plan.rendezvous);
  }
  GuardClient guard(context, std::move(began));

  const auto stopped_by = recognize_endpoint(context, guard, signal_stream, plan);
  if (stopped_by) return exit_status_of_signal(*stopped_by);
  auto agent = Agent::open(context, plan, guard, inherited());
  if (!agent) return agent.error();
  int status = kExitDefect;
  run_to_end(context, work(**agent, guard, plan, signal_stream, status));
  conclude_job(**agent, status, after_job);
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

/// 75 if the operating system refused, which may be temporary; 2 if a value is invalid.
int status_of(const Error& error) {
  return error.is(Errc::kIo) || error.is(Errc::kTimedOut) ? kExitTryAgain : kExitUsage;
}

}  // namespace

int agent_main(LaunchPlan plan, sigset_t signals, AgentBegins began, const AfterJob& after_job) {
  const auto status = try_run_agent(plan, signals, std::move(began), after_job);
  if (status) return *status;
  report("{}", status.error().detail);
  return status_of(status.error());
}

}  // namespace ddprun
