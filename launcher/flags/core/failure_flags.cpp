// The flags for restarts and for how a job ends.

#include "base/signal_name.hpp"
#include "launcher/flags/core/arguments.hpp"
#include "launcher/flags/core/shared_setters.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <limits>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kFailure = "Restarts and stopping";

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

Result<void> hang_timeout(const Given& given, Options& options) {
  HangPlan& hang = options.plan.hang;
  hang.is_watched = given.text != "off";
  hang.limit.reset();
  if (given.text == "off" || given.text == "auto") return {};
  hang.limit = parse_seconds(given.text);
  if (hang.limit && *hang.limit >= std::chrono::seconds(1)) return {};
  return invalid_argument("expected auto, off, or seconds of at least 1");
}

Result<void> on_hang(const Given& given, Options& options) {
  if (given.text != "report" && given.text != "restart") {
    return invalid_argument("expected report or restart");
  }
  options.plan.hang.restarts = given.text == "restart";
  return {};
}

Result<void> forward_signal(const Given& given, Options& options) {
  const int number = signal_number(given.text);
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
    const int number = signal_number(name);
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

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kFailureFlags = {
    Flag{kFailure, "max-restarts", 0, "N", "0", "How often the job's workers may be restarted after a failure.",
         true, number<0, std::numeric_limits<int>::max(), &Options::plan, &LaunchPlan::max_restarts>},
    Flag{kFailure, "restart-window", 0, "SECONDS", "none",
         "The restart budget refills after this long without a failure.", true, positive_seconds<&Options::plan, &LaunchPlan::restart_window>},
    Flag{kFailure, "restart-policy", 0, "always|progress", "always",
         "progress: no restart after two attempts in a row failed alike within 5 s, before any worker reached the store.",
         true, restart_policy},
    Flag{kFailure, "node-check", 0, "COMMAND", "none",
         "Command that a node must pass before it takes part and after a failure that began on it. A node that fails it, or on which three failures in an hour began, stands by if enough others remain.",
         true, node_check},
    Flag{kFailure, "node-check-timeout", 0, "SECONDS", "60",
         "A --node-check that takes longer has failed.", true, positive_seconds<&Options::plan, &LaunchPlan::node_check, &NodeCheckPlan::limit>},
    Flag{kFailure, "shutdown-timeout", 0, "SECONDS", "30",
         "Time from the stop signal to SIGKILL; also TORCH_ELASTIC_SHUTDOWN_TIMEOUT.", true,
         shutdown_timeout},
    Flag{kFailure, "leftover", 0, "kill|wait|wait=SECONDS|keep", "kill",
         "What to do with processes that workers left behind after exiting with 0: kill them, wait for them (default 600 s), or keep them running.",
         true, leftover},
    Flag{kFailure, "hang-timeout", 0, "auto|SECONDS|off", "auto",
         "Training hangs once no worker of a node has made an optimizer step for this long. auto: 10 times the slowest of the last steps, at least 60 s.",
         true, hang_timeout},
    Flag{kFailure, "on-hang", 0, "report|restart", "report",
         "What to do when training hangs: report which rank hangs where, or also end that rank, so that the job restarts.",
         true, on_hang},
    Flag{kFailure, "forward-signal", 0, "SIGNAL", "the one that came",
         "Signal sent to workers when SIGTERM, or in a Slurm step SIGUSR1 or SIGUSR2, tells the job to save and end.",
         true, forward_signal},
    Flag{kFailure, "preempt-exit-code", 0, "N", "75", "Exit status if all workers have saved after a preemption notice.",
         true, preempt_exit_code},
    Flag{kFailure, "requeue", 0, "never|on-preempt|always", "never",
         "When to ask Slurm to start the job again. on-preempt: after a preemption notice or exit status 75; always: also after any other failure.", true,
         requeue},
    Flag{kFailure, "signals-to-handle", 0, "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
         "Signals that end the job and are passed to the workers.", true, signals_to_handle},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> failure_flags() {
  return kFailureFlags;
}

}  // namespace ddprun
