#include "trainer/core/progress_text.hpp"

#include "trainer/core/python_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace ddprun {
namespace {

/// 0 to 1; 1 if there is nothing to do.
double share(std::int64_t done, std::int64_t all) {
  if (all <= 0) return 1;
  return static_cast<double>(std::clamp<std::int64_t>(done, 0, all)) / static_cast<double>(all);
}

std::string cells(double filled_share, std::size_t width, const char* filled, const char* empty) {
  const auto count = static_cast<std::size_t>(filled_share * static_cast<double>(width));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    text += i < count ? filled : empty;
  }
  return text;
}

/// "01:05" or "1:01:05"; "?" if it is not known.
std::string clock_text(double seconds) {
  constexpr double kTooLong = 1e9;
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 3600;
  const bool is_known = seconds >= 0 && seconds < kTooLong;  // false for NaN
  if (!is_known) return "?";
  const auto whole = static_cast<std::int64_t>(seconds);
  const std::int64_t hours = whole / kHour;
  const std::string rest = fmt::format("{:02}:{:02}", whole % kHour / kMinute, whole % kMinute);
  return hours > 0 ? fmt::format("{}:{}", hours, rest) : rest;
}

std::string samples_text(const BarState& state) {
  constexpr std::size_t kWidth = 10;
  constexpr double kPercent = 100;
  const double done = share(state.samples_done, state.samples);
  const bool has_rate = state.seconds > 0 && state.samples_done > 0;
  const double per_s = has_rate ? static_cast<double>(state.samples_done) / state.seconds : 0;
  const double left_s =
      has_rate ? static_cast<double>(state.samples - state.samples_done) / per_s : -1;
  return fmt::format(
      "Train epoch {}/{}: {:3.0f}%|{}| {}/{} [{}<{}, {}samples/s, loss={}, accuracy={}]",
      state.count,
      state.epochs,
      kPercent * done,
      cells(done, kWidth, "█", " "),
      state.samples_done,
      state.samples,
      clock_text(state.seconds),
      clock_text(left_s),
      has_rate ? fmt::format("{:5.2f}", per_s) : "?",
      python_fixed(state.loss, 3),
      python_percent(state.accuracy, 2));
}

}  // namespace

std::string bar_text(BarStyle style, const BarState& state) {
  constexpr std::size_t kWidth = 30;
  if (style == BarStyle::kSamples) return samples_text(state);
  return fmt::format(
      "epoch {} [{}] {}/{} loss {:.4f}",
      state.epoch,
      cells(share(state.steps_done, state.steps), kWidth, "#", "."),
      state.steps_done,
      state.steps,
      state.loss);
}

}  // namespace ddprun
