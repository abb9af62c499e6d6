#pragma once

// Computes the speed of a run from given times: reads no clock. All times are seconds of one
// monotonic clock, all rates are per second.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

/// How one or many steps spent their time, in seconds.
struct PhaseTimes {
  double data_s = 0;     // waiting for the loader
  double copy_s = 0;     // host to device
  double compute_s = 0;  // forward and backward, including the exchange of gradients
  double optimizer_s = 0;
  double snapshot_s = 0;  // waiting for the snapshot in progress, if any
  double other_s = 0;     // everything else: metrics, records

  double total_s() const {
    return data_s + copy_s + compute_s + optimizer_s + snapshot_s + other_s;
  }
  void add(const PhaseTimes& more);
  bool operator==(const PhaseTimes&) const = default;
};

/// Splits a step so that its phases add up to its time: the time between two calls belongs to the
/// phase named by the later one.
class PhaseSplit {
 public:
  explicit PhaseSplit(double now_s) : last_s_(now_s) {}

  /// The time since the last call belongs to `phase`. A clock that went backwards counts as one
  /// that stood still.
  void end(double PhaseTimes::*phase, double now_s);

  /// The time since the last call belongs to no step.
  void skip(double now_s);

  /// The phases since the start or the last call. REQUIRES: end() was called for the last one.
  PhaseTimes take();

 private:
  double last_s_;
  PhaseTimes phases_;
};

/// The result of training a model that costs almost nothing (T52).
struct LoaderCeiling {
  double loader_samples_per_s = 0;    // of the loader alone: no training is faster
  double training_samples_per_s = 0;  // if no step had waited for the loader
};

/// `took`: the time that all ranks needed for `samples`.
LoaderCeiling loader_ceiling(std::int64_t samples, const PhaseTimes& took);

/// Counts samples over time: over the whole run, and over a window of the last steps, which follows
/// changes of speed and leaves out the slow start.
class Throughput {
 public:
  static constexpr std::size_t kWindowSteps = 50;

  explicit Throughput(double begin_s);

  /// Adds `samples` of all ranks, done at `now_s`.
  void add(std::int64_t samples, double now_s);

  std::int64_t samples() const { return samples_; }
  /// Samples per second since the start; 0 before the first step.
  double whole() const;
  /// Over the last kWindowSteps steps; 0 before the first.
  double windowed() const;
  /// The time that `samples_left` take at the windowed rate; none before the first step.
  std::optional<double> eta_s(std::int64_t samples_left) const;

 private:
  std::deque<std::pair<double, std::int64_t>> window_;  // (time, samples until then)
  double begin_s_;
  std::int64_t samples_ = 0;
};

/// The floating-point operations per second of a rank: forward, and backward, which costs twice as
/// much. `forward_flops` is for one sample, `samples_per_s` for one rank.
double training_flops(double forward_flops, double samples_per_s);

/// Model flops utilisation, 0 to 1 (PaLM, Chowdhery et al. 2022, appendix B): training_flops
/// divided by the device's peak. REQUIRES: peak_flops > 0.
double model_flops_utilisation(double forward_flops, double samples_per_s, double peak_flops);

/// 59.6 is "60s", 61 is "1m01s", 3661 is "1h01m01s". Negative values, NaN and infinity are "?".
std::string human_seconds(double seconds);

}  // namespace ddprun
