#include "trainer/core/throughput.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

double rate(std::int64_t samples, double seconds) {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

}  // namespace

void PhaseTimes::add(const PhaseTimes& more) {
  data_s += more.data_s;
  copy_s += more.copy_s;
  compute_s += more.compute_s;
  optimizer_s += more.optimizer_s;
  snapshot_s += more.snapshot_s;
  other_s += more.other_s;
}

void PhaseSplit::end(double PhaseTimes::*phase, double now_s) {
  phases_.*phase += std::max(now_s - last_s_, 0.0);
  skip(now_s);
}

void PhaseSplit::skip(double now_s) {
  last_s_ = std::max(now_s, last_s_);
}

PhaseTimes PhaseSplit::take() {
  return std::exchange(phases_, PhaseTimes());
}

LoaderCeiling loader_ceiling(std::int64_t samples, const PhaseTimes& took) {
  return {
      .loader_samples_per_s = rate(samples, took.total_s()),
      .training_samples_per_s = rate(samples, took.total_s() - took.data_s)};
}

Throughput::Throughput(double begin_s) : window_{{begin_s, 0}}, begin_s_(begin_s) {}

void Throughput::add(std::int64_t samples, double now_s) {
  samples_ += samples;
  window_.emplace_back(now_s, samples_);
  if (window_.size() > kWindowSteps + 1) window_.pop_front();
}

double Throughput::whole() const {
  return rate(samples_, window_.back().first - begin_s_);
}

double Throughput::windowed() const {
  const auto& [first_s, first] = window_.front();
  const auto& [last_s, last] = window_.back();
  return rate(last - first, last_s - first_s);
}

std::optional<double> Throughput::eta_s(std::int64_t samples_left) const {
  const double per_s = windowed();
  if (per_s <= 0) return std::nullopt;
  return static_cast<double>(std::max<std::int64_t>(samples_left, 0)) / per_s;
}

double training_flops(double forward_flops, double samples_per_s) {
  constexpr double kForwardAndBackward = 3;
  return forward_flops * kForwardAndBackward * samples_per_s;
}

double model_flops_utilisation(double forward_flops, double samples_per_s, double peak_flops) {
  DDPRUN_CHECK(peak_flops > 0);
  return training_flops(forward_flops, samples_per_s) / peak_flops;
}

std::string human_seconds(double seconds) {
  constexpr double kTooLong = 1e12;  // longer than any run, and small enough for the cast
  const bool is_known = seconds >= 0 && seconds < kTooLong;  // false for NaN
  if (!is_known) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 3600;
  if (whole < kMinute) return fmt::format("{}s", whole);
  if (whole < kHour) return fmt::format("{}m{:02}s", whole / kMinute, whole % kMinute);
  return fmt::format("{}h{:02}m{:02}s", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

}  // namespace ddprun
