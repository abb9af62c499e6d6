#pragma once

#include <ATen/record_function.h>

#include <string_view>

namespace ddprun {

// The stretches of a step that a trace shows by name: those of the OpenACC bootcamp, in which one
// step is a `Train`, and the update, which it leaves without.
inline constexpr std::string_view kTrainRange = "Train";
inline constexpr std::string_view kDataRange = "Data loading";
inline constexpr std::string_view kCopyRange = "Copy to device";
inline constexpr std::string_view kForwardRange = "Forward pass";
inline constexpr std::string_view kBackwardRange = "Backward pass";
inline constexpr std::string_view kOptimizerRange = "Optimizer step";

/// Has profilers see a stretch of time, for as long as it lives: Python's record_function(). While
/// nobody profiles it costs some nanoseconds. On the stack only: ranges nest.
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
