#pragma once

#include <ATen/record_function.h>

#include <string_view>

namespace ddprun {

// The parts of a step that a trace shows by name: those of the OpenACC bootcamp, where one step is
// a `Train`, and additionally the update.
inline constexpr std::string_view kTrainRange = "Train";
inline constexpr std::string_view kDataRange = "Data loading";
inline constexpr std::string_view kCopyRange = "Copy to device";
inline constexpr std::string_view kForwardRange = "Forward pass";
inline constexpr std::string_view kBackwardRange = "Backward pass";
inline constexpr std::string_view kOptimizerRange = "Optimizer step";

/// Shows its lifetime as a range in profilers: Python's record_function(). Costs some nanoseconds
/// while there is no profiler. Use it on the stack only: ranges nest.
class PhaseRange {
 public:
  explicit PhaseRange(std::string_view name) : function_(at::RecordScope::USER_SCOPE) {
    if (function_.isActive()) function_.before(name);
  }
  ~PhaseRange() = default;
  PhaseRange(const PhaseRange&) = delete;
  PhaseRange& operator=(const PhaseRange&) = delete;

 private:
  at::RecordFunction function_;
};

}  // namespace ddprun
