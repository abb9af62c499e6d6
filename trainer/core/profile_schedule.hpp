#pragma once

// Which steps of a run are profiled. The numbers mean what those of Python's
// torch.profiler.schedule() do.

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Cycles of steps. All are >= 0, `active` is >= 1; a cycle is at most kStepsMax steps long.
struct ProfileSchedule {
  static constexpr std::int64_t kStepsMax = 1'000'000;

  std::int64_t wait = 2;    // steps of a cycle that are left alone
  std::int64_t warmup = 2;  // then some with the profiler on, whose slow beginning is thrown away
  std::int64_t active = 2;  // then those that are recorded
  std::int64_t repeat = 1;  // cycles; 0: one after another until the profiled epochs end

  bool operator==(const ProfileSchedule&) const = default;
};

/// Crusoe's vision transformer has other numbers than Mila's example, whose are the defaults.
inline constexpr ProfileSchedule kCrusoeProfile = {
    .wait = 1, .warmup = 1, .active = 3, .repeat = 2};

enum class ProfileAction : std::uint8_t {
  kRest,
  kWarmUp,
  kRecord,
  kSave,  // record, and write the cycle's trace when the step is done
};

/// What is done with step `step`, counted from 0. REQUIRES: step >= 0.
ProfileAction profile_action(const ProfileSchedule& schedule, std::int64_t step);

/// Reads "WAIT,WARMUP,ACTIVE,REPEAT". Fails with kInvalidArgument.
Result<ProfileSchedule> parse_profile_schedule(std::string_view text);

/// The name that TensorBoard's profiler plugin looks for: the worker's, when it was written in
/// nanoseconds since 1970, and what it is.
std::string trace_file_name(int rank, std::int64_t time_ns);

}  // namespace ddprun
