// Parses and checks the values of the job and failure flags. Those of rendezvous and output flags
// are in rendezvous_setters.cpp and output_setters.cpp.

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/arguments.hpp"
#include "launcher/flags/core/options.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

namespace ddprun::setters {
namespace {

/// SIGTERM → 15; 0 for an unknown name.
int signal_of(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  name.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

Result<Duration> seconds_of(const Given& given) {
  const auto seconds = parse_seconds(given.text);
  if (!seconds) return invalid_argument("expected seconds, a number of at least 0");
  return *seconds;
}

}  // namespace

Result<void> nproc_per_node(const Given& given, Options& options) {
  using By = WorkerCount::By;
  const std::string& text = given.text;
  if (text == "cpu") options.workers = {.by = By::kCpus, .number = 0};
  if (text == "gpu") options.workers = {.by = By::kGpus, .number = 0};
  if (text == "auto") options.workers = {.by = By::kAuto, .number = 0};
  if (text == "cpu" || text == "gpu" || text == "auto") return {};
  if (text == "xpu") return invalid_argument("ddprun cannot count XPUs; give their number");
  const auto number = parse_int<int>(text);
  if (!number || *number < 1 || *number > WorkerCount::kMax) {
    return invalid_argument("expected a number from 1 to {}, cpu, gpu or auto", WorkerCount::kMax);
  }
  options.workers = {.by = By::kNumber, .number = *number};
  return {};
}

Result<void> num_processes(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  if (!number || *number < 1) return invalid_argument("expected a number of at least 1");
  options.all_workers = number;
  return {};
}

Result<void> role(const Given& given, Options& options) {
  if (given.text.empty()) return invalid_argument("expected a name; leave it out for 'default'");
  options.plan.role = given.text;
  return {};
}

Result<void> module(const Given& /*given*/, Options& options) {
  options.is_module = true;
  return {};
}

Result<void> no_python(const Given& /*given*/, Options& options) {
  options.is_program = true;
  return {};
}

Result<void> run_path(const Given& /*given*/, Options& options) {
  options.runs = Runs::kRunPath;
  return {};
}

Result<void> virtual_local_rank(const Given& /*given*/, Options& options) {
  options.plan.virtual_local_rank = true;
  return {};
}

Result<void> numa_binding(const Given& given, Options& options) {
  options.numa_binding = parse_numa_binding(given.text);
  if (!options.numa_binding)
    return invalid_argument("expected node, socket, exclusive or core-complex");
  return {};
}

Result<void> max_restarts(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  constexpr int kMax = std::numeric_limits<int>::max();
  if (!number || *number < 0) return invalid_argument("expected a number from 0 to {}", kMax);
  options.plan.max_restarts = *number;
  return {};
}

Result<void> restart_window(const Given& given, Options& options) {
  const auto window = seconds_of(given);
  if (!window) return window.error();
  if (*window == Duration::zero()) return invalid_argument("expected more than 0 seconds");
  options.plan.restart_window = *window;
  return {};
}

Result<void> restart_policy(const Given& given, Options& options) {
  if (given.text != "always" && given.text != "progress") {
    return invalid_argument("expected always or progress");
  }
  options.plan.needs_progress = given.text == "progress";
  return {};
}

Result<void> node_check(const Given& given, Options& options) {
  auto arguments = split_arguments(given.text);
  if (!arguments) return arguments.error();
  if (arguments->empty() || arguments->front().empty()) {
    return invalid_argument("expected a program and its arguments, such as 'dcgmi diag -r 1'");
  }
  options.plan.node_check.arguments = *std::move(arguments);
  options.plan.node_check.text = given.text;
  return {};
}

Result<void> node_check_timeout(const Given& given, Options& options) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  if (*timeout == Duration::zero()) return invalid_argument("expected more than 0 seconds");
  options.plan.node_check.limit = *timeout;
  return {};
}

Result<void> shutdown_timeout(const Given& given, Options& options) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  options.plan.shutdown_timeout = *timeout;
  options.has_grace = true;
  return {};
}

Result<void> leftover(const Given& given, Options& options) {
  constexpr std::string_view kLimit = "wait=";
  LeftoverPlan& leftovers = options.plan.leftovers;
  const std::string_view text = given.text;
  if (text == "keep") leftovers.mode = LeftoverMode::kKeep;
  if (text == "wait") leftovers.mode = LeftoverMode::kWait;
  if (text == "kill" || text == "wait" || text == "keep") return {};
  const auto limit =
      text.starts_with(kLimit) ? parse_seconds(text.substr(kLimit.size())) : std::nullopt;
  if (!limit || *limit == Duration::zero()) {
    return invalid_argument("expected kill, wait, keep, or wait=SECONDS with seconds above 0");
  }
  leftovers = {.mode = LeftoverMode::kWait, .limit = *limit};
  return {};
}

Result<void> forward_signal(const Given& given, Options& options) {
  const int number = signal_of(given.text);
  if (number == 0) return invalid_argument("expected the name of a signal, such as SIGUSR1");
  if (number == SIGKILL || number == SIGSTOP) {
    return invalid_argument(
        "workers cannot handle this signal, so they could not save; give another, such as SIGTERM");
  }
  options.plan.notice.forward = number;
  return {};
}

Result<void> preempt_exit_code(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  if (!number || *number < 1 || *number > 255) {
    return invalid_argument("expected a number from 1 to 255; 0 means that the job is done");
  }
  options.plan.notice.exit_status = *number;
  return {};
}

Result<void> requeue(const Given& given, Options& options) {
  const auto mode = parse_requeue(given.text);
  if (!mode) return invalid_argument("expected never, on-preempt or always");
  options.requeue = *mode;
  return {};
}

Result<void> signals_to_handle(const Given& given, Options& options) {
  std::vector<int> signals;
  for (const std::string_view piece : split(given.text, ',')) {
    const std::string_view name = trim(piece);
    const int number = signal_of(name);
    if (number == 0) {
      return invalid_argument("'{}' is not a signal; expected names such as SIGTERM,SIGINT", name);
    }
    if (number == SIGKILL || number == SIGSTOP || number == SIGCHLD) {
      return invalid_argument("{} cannot be handled; leave it out", name);
    }
    if (std::ranges::find(signals, number) == signals.end()) signals.push_back(number);
  }
  options.plan.signals_to_handle = std::move(signals);
  options.plan.signals_text = given.text;
  return {};
}

Result<void> monitor_interval(const Given& given, Options& /*options*/) {
  const auto interval = parse_double(given.text);
  if (!interval || *interval <= 0) return invalid_argument("expected seconds, a number above 0");
  return {};
}

Result<void> start_method(const Given& given, Options& /*options*/) {
  const bool known = given.text == "spawn" || given.text == "fork" || given.text == "forkserver";
  if (!known) return invalid_argument("expected spawn, fork or forkserver");
  return {};
}

Result<void> exit_barrier_timeout(const Given& given, Options& /*options*/) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  return {};
}

Result<void> use_env(const Given& /*given*/, Options& /*options*/) {
  return {};
}

}  // namespace ddprun::setters
