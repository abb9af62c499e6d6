// Parses and checks the flags for how workers are started and how many runs there are.

#include "agent/core/worker_environment.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/arguments.hpp"
#include "launcher/flags/core/options.hpp"

#include <limits>
#include <utility>

namespace ddprun::setters {
Result<void> wrap(const Given& given, Options& options) {
  auto arguments = split_arguments(given.text);
  if (!arguments) return arguments.error();
  if (arguments->empty() || arguments->front().empty()) {
    return invalid_argument(
        "expected a program and its arguments, such as 'numactl --cpunodebind=%l'");
  }
  if (arguments->front().find('%') != std::string::npos) {
    return invalid_argument("the program is the same for all ranks; use % in its arguments only");
  }
  for (const std::string& argument : *arguments) {
    if (const auto unknown = unknown_placeholder(argument)) {
      return invalid_argument(
          "unknown placeholder '{}'; expected %n (node rank), %r (rank), %l (local rank), %w "
          "(world "
          "size), %j (job id), or %% (a percent sign)",
          *unknown);
    }
  }
  options.plan.command.wrap = *std::move(arguments);
  return {};
}

Result<void> no_use_env(const Given& /*given*/, Options& options) {
  options.passes_local_rank = true;
  return {};
}

Result<void> debug_rank(const Given& given, Options& options) {
  const auto rank = parse_int<int>(given.text);
  if (!rank || *rank < 0) return invalid_argument("expected a rank, a number of at least 0");
  options.plan.debug_rank = rank;
  return {};
}

Result<void> grid(const Given& given, Options& options) {
  if (given.text.empty()) return invalid_argument("expected a file; leave it out for no grid");
  options.grid = given;
  return {};
}

Result<void> independent(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  if (!number || *number < 1 || *number > WorkerCount::kMax) {
    return invalid_argument("expected a number from 1 to {}", WorkerCount::kMax);
  }
  options.independent = *number;
  return {};
}

}  // namespace ddprun::setters
