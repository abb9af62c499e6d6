// Warnings about output flags that are accepted but have no effect.

#include "launcher/flags/core/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace ddprun {
namespace {

void warn_of_absent_ranks(
    const Given& given, std::vector<int> ranks, int workers, std::vector<std::string>& warnings) {
  std::erase_if(ranks, [workers](int rank) { return rank < workers; });
  if (ranks.empty()) return;
  warnings.push_back(fmt::format(
      "{} '{}': there is no local rank {}; with --nproc-per-node {} the last one is {}",
      given.source,
      given.text,
      fmt::join(ranks, ", "),
      workers,
      workers - 1));
}

template <class Ranks>
std::vector<int> listed(const Ranks& ranks) {
  return {ranks.begin(), ranks.end()};
}

using Stream = StreamMode StreamsPlan::Modes::*;

bool is_teed_by_any(const LaunchPlan& plan, Stream stream) {
  if (plan.streams.no_files) return false;
  return std::ranges::any_of(std::views::iota(0, plan.workers), [&](int rank) {
    return plan.streams.modes(rank).*stream == StreamMode::kTee;
  });
}

}  // namespace

void warn_of_no_effect(const CommandLine& line, Options& options) {
  const LaunchPlan& plan = options.plan;
  const auto absent = [&](const char* flag, std::vector<int> ranks) {
    const auto given = line.given.find(flag);
    if (given == line.given.end()) return;
    warn_of_absent_ranks(given->second, std::move(ranks), plan.workers, options.warnings);
  };
  absent("redirects", listed(options.redirects.by_rank | std::views::keys));
  absent("tee", listed(options.tee.by_rank | std::views::keys));
  absent("local-ranks-filter", listed(plan.streams.console_ranks));

  const auto unteed = [&](const char* flag, const char* tee, Stream stream) {
    const auto given = line.given.find(flag);
    if (given == line.given.end() || is_teed_by_any(plan, stream)) return;
    options.warnings.push_back(fmt::format(
        "{} '{}': filters only tee'd output, and nothing is tee'd; give {}{}",
        given->second.source,
        given->second.text,
        tee,
        plan.streams.no_files ? " and a --log-dir other than /dev/null" : ""));
  };
  unteed("duplicate-stdout-filters", "-t 1", &StreamsPlan::Modes::out);
  unteed("duplicate-stderr-filters", "-t 2", &StreamsPlan::Modes::err);

  const auto interval = line.given.find("memory-log-interval");
  if (interval == line.given.end() || !plan.memory_log.directory.empty()) return;
  options.warnings.push_back(fmt::format(
      "{} '{}': no samples are taken; give --memory-log",
      interval->second.source,
      interval->second.text));
}

}  // namespace ddprun
