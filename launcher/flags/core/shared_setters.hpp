#pragma once

// Setters that several rows of the flag table share. The last template arguments lead from Options
// to the member that is set: turn_on<&Options::plan, &LaunchPlan::virtual_local_rank>.

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/options.hpp"

namespace ddprun {

template <auto... Path>
auto& member(Options& options) {
  return (options.*....*Path);
}

template <auto... Path>
Result<void> turn_on(const Given& /*given*/, Options& options) {
  member<Path...>(options) = true;
  return {};
}

template <auto... Path>
Result<void> on_or_off(const Given& given, Options& options) {
  const auto on = parse_bool(given.text);
  if (!on) return invalid_argument("expected on or off");
  member<Path...>(options) = *on;
  return {};
}

template <int Min, int Max, auto... Path>
Result<void> number(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  if (!number || *number < Min || *number > Max) {
    return invalid_argument("expected a number from {} to {}", Min, Max);
  }
  member<Path...>(options) = *number;
  return {};
}

template <auto... Path>
Result<void> port(const Given& given, Options& options) {
  const auto parsed = parse_int<std::uint16_t>(given.text);
  if (!parsed) return invalid_argument("expected a port from 0 to 65535, 0 for a free one");
  const std::uint16_t number = *parsed;
  member<Path...>(options) = number;
  return {};
}

inline Result<Duration> seconds_of(const Given& given) {
  const auto seconds = parse_seconds(given.text);
  if (!seconds) return invalid_argument("expected seconds, a number of at least 0");
  return *seconds;
}

template <auto... Path>
Result<void> positive_seconds(const Given& given, Options& options) {
  const auto seconds = seconds_of(given);
  if (!seconds) return seconds.error();
  if (*seconds == Duration::zero()) return invalid_argument("expected more than 0 seconds");
  member<Path...>(options) = *seconds;
  return {};
}

}  // namespace ddprun
