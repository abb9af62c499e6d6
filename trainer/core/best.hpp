#pragma once

// Which moment of a run was the best so far, by its validation results.

#include "trainer/core/snapshot_name.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

enum class BestMetric : std::uint8_t {
  kAccuracy,  // in percent; more is better
  kLoss,      // mean over the samples; less is better
};

inline constexpr std::array kBestMetrics = {BestMetric::kAccuracy, BestMetric::kLoss};

/// The flag value that names it.
const char* name_of(BestMetric metric);
std::optional<BestMetric> best_metric_of(std::string_view name);

/// The best so far. It outlives its snapshot, which may have been removed.
struct BestSoFar {
  BestMetric metric = BestMetric::kAccuracy;
  double value = 0;        // finite
  std::int64_t epoch = 0;  // after which it was measured, as records number it
  SnapshotName snapshot;   // of that moment

  bool operator==(const BestSoFar&) const = default;
};

/// Whether `value` is better than `before`. Of equal values the first stays; a value that is not
/// finite is never better; a `before` of another metric is ignored.
bool is_better(BestMetric metric, double value, const std::optional<BestSoFar>& before);

/// "accuracy 71.82 after epoch 4".
std::string best_text(const BestSoFar& best);

}  // namespace ddprun
