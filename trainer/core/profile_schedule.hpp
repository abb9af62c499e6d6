#pragma once

// Which steps of a run are profiled. The numbers have the meaning of those of Python's
// torch.profiler.schedule().

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Cycles of steps. All are >= 0, `active` is >= 1; a cycle is at most kStepsMax steps long.
struct ProfileSchedule {
  static constexpr std::int64_t kStepsMax = 1'000'000;

  std::int64_t wait = 2;    // steps of a cycle without the profiler
  std::int64_t warmup = 2;  // then steps with the profiler on, discarded because they are slow
  std::int64_t active = 2;  // then recorded steps
  std::int64_t repeat = 1;  // cycles; 0: one after another until the profiled epochs end

  bool operator==(const ProfileSchedule&) const = default;
};

/// Crusoe's vision transformer uses other numbers than Mila's example, which gives the defaults.
inline constexpr ProfileSchedule kCrusoeProfile = {
    .wait = 1, .warmup = 1, .active = 3, .repeat = 2};

enum class ProfileAction : std::uint8_t {
  kRest,
  kWarmUp,
  kRecord,
  kSave,  // record, and write the cycle's trace after the step
};

/// What to do in step `step`, counted from 0. REQUIRES: step >= 0.
ProfileAction profile_action(const ProfileSchedule& schedule, std::int64_t step);

/// Reads "WAIT,WARMUP,ACTIVE,REPEAT". Fails with kInvalidArgument.
Result<ProfileSchedule> parse_profile_schedule(std::string_view text);

/// A name that TensorBoard's profiler plugin finds: the worker, the time of writing in nanoseconds
/// since 1970, and the kind of file.
std::string trace_file_name(int rank, std::int64_t time_ns);

}  // namespace ddprun
