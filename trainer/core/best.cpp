#include "trainer/core/best.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddprun {

const char* name_of(BestMetric metric) {
  switch (metric) {
    case BestMetric::kAccuracy:
      return "accuracy";
    case BestMetric::kLoss:
      return "loss";
  }
  return "";
}

std::optional<BestMetric> best_metric_of(std::string_view name) {
  const auto* const found = std::ranges::find(
      kBestMetrics, name, [](BestMetric metric) { return std::string_view(name_of(metric)); });
  return found == kBestMetrics.end() ? std::nullopt : std::optional(*found);
}

bool is_better(BestMetric metric, double value, const std::optional<BestSoFar>& before) {
  if (!std::isfinite(value)) return false;
  if (!before || before->metric != metric) return true;
  return metric == BestMetric::kAccuracy ? value > before->value : value < before->value;
}

std::string best_text(const BestSoFar& best) {
  return fmt::format("{} {:.6g} after epoch {}", name_of(best.metric), best.value, best.epoch);
}

}  // namespace ddprun
