#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace ddprun {

/// The clock of all deadlines: CLOCK_BOOTTIME, which never jumps and runs on during suspend.
///
/// A time point of one machine is never compared with one of another machine.
struct Clock {
  // NOLINTBEGIN(readability-identifier-naming): the names are those of std::chrono
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  static time_point now() noexcept {
    timespec spec{};
    ::clock_gettime(CLOCK_BOOTTIME, &spec);
    return time_point(std::chrono::seconds(spec.tv_sec) + std::chrono::nanoseconds(spec.tv_nsec));
  }
};

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<Clock>;

/// Later than every other time: the deadline of a wait without a limit.
inline constexpr TimePoint kNever = TimePoint::max();

/// An absolute time for a kernel timer on CLOCK_BOOTTIME; kNever disarms the timer.
inline itimerspec expiry_at(TimePoint when) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  itimerspec expiry{};
  if (when == kNever) return expiry;
  const std::int64_t ns = when.time_since_epoch().count();
  expiry.it_value = {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  return expiry;
}

/// `duration` in seconds, for logs and JSON.
constexpr double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace ddprun
