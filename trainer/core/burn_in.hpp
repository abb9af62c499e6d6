#pragma once

// A burn-in: training for hours by the clock, to test whether machines endure it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// The last line of a burn-in, as in Crusoe's guide.
inline constexpr std::string_view kBurnInPassed = "BURN-IN TEST COMPLETED SUCCESSFULLY";
inline constexpr std::string_view kBurnInFailed = "BURN-IN TEST FAILED";

/// What a GPU reports about itself; 0 for values that it does not report.
struct GpuFigures {
  std::int64_t allocated_bytes = 0;      // by tensors
  std::int64_t reserved_bytes = 0;       // from the driver, for tensors now and later
  std::int64_t max_allocated_bytes = 0;  // since the start of the process
  std::optional<double> utilisation_percent = std::nullopt;
  std::optional<double> memory_utilisation_percent = std::nullopt;
  std::optional<double> temp_c = std::nullopt;
  std::optional<double> power_w = std::nullopt;
};

/// The state of a burn-in after a step.
struct BurnInMoment {
  std::int64_t iteration = 0;  // from 1
  double loss = 0;             // of rank 0's batch
  double samples_per_s = 0;    // of all ranks, over the last steps
  std::optional<double> tokens_per_s = std::nullopt;
  double elapsed_s = 0;
  double remaining_s = 0;                        // >= 0
  std::int64_t peak_rss_bytes = 0;               // of rank 0's process; 0 if not known
  std::optional<GpuFigures> gpu = std::nullopt;  // rank 0's
};

/// Whether `iteration`, from 1, has a line; whether all ranks wait for each other after
/// it.
constexpr bool is_burn_in_told(std::int64_t iteration) {
  constexpr std::int64_t kEvery = 10;
  return iteration % kEvery == 0;
}
constexpr bool is_burn_in_barrier(std::int64_t iteration) {
  constexpr std::int64_t kEvery = 100;
  return iteration % kEvery == 0;
}

/// "burn-in iteration=10 loss=…"; unknown values are left out.
std::string burn_in_line(const BurnInMoment& moment);

}  // namespace ddprun
