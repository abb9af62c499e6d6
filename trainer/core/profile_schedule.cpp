#include "trainer/core/profile_schedule.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

Error bad_schedule(std::string_view text, std::string_view why) {
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("'{}' is not a schedule WAIT,WARMUP,ACTIVE,REPEAT: {}", text, why));
}

}  // namespace

ProfileAction profile_action(const ProfileSchedule& schedule, std::int64_t step) {
  DDPRUN_CHECK(step >= 0 && schedule.active >= 1);
  const std::int64_t steps = schedule.wait + schedule.warmup + schedule.active;
  if (schedule.repeat > 0 && step / steps >= schedule.repeat) return ProfileAction::kRest;
  const std::int64_t at = step % steps;
  if (at < schedule.wait) return ProfileAction::kRest;
  if (at < schedule.wait + schedule.warmup) return ProfileAction::kWarmUp;
  return at == steps - 1 ? ProfileAction::kSave : ProfileAction::kRecord;
}

Result<ProfileSchedule> parse_profile_schedule(std::string_view text) {
  constexpr std::size_t kNumbers = 4;
  const auto words = split(text, ',');
  if (words.size() != kNumbers) return bad_schedule(text, "expected four numbers");
  std::array<std::int64_t, kNumbers> numbers{};
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto number = parse_int<std::int64_t>(words[i]);
    if (!number || *number < 0 || *number > ProfileSchedule::kStepsMax) {
      return bad_schedule(
          text,
          fmt::format(
              "'{}' is not a whole number from 0 to {}", words[i], ProfileSchedule::kStepsMax));
    }
    numbers[i] = *number;
  }
  const auto [wait, warmup, active, repeat] = numbers;
  if (active < 1) return bad_schedule(text, "a cycle must record at least one step");
  if (wait + warmup + active > ProfileSchedule::kStepsMax) {
    return bad_schedule(
        text, fmt::format("a cycle has at most {} steps", ProfileSchedule::kStepsMax));
  }
  return ProfileSchedule{.wait = wait, .warmup = warmup, .active = active, .repeat = repeat};
}

std::string trace_file_name(int rank, std::int64_t time_ns) {
  return fmt::format("rank_{}.{}.pt.trace.json", rank, time_ns);
}

}  // namespace ddprun
