#pragma once

// Loss scaling for float16: the loss is multiplied before the backward pass, so that small
// gradients do not vanish, and the gradients are divided by the same factor before the step. Like
// Python's torch.amp.GradScaler, with the same defaults, arithmetic and keys of its state.

#include "base/error.hpp"
#include "trainer/optimizer.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

/// Python's defaults.
struct GradScalerOptions {
  double init_scale = 65'536;
  double growth_factor = 2;             // > 1
  double backoff_factor = 0.5;          // < 1
  std::int64_t growth_interval = 2000;  // good steps in a row before the scale grows
};

/// One step, in this order (P16); clip between unscale() and step():
///
///   scaler.scale(loss).backward();  scaler.unscale(optimizer);  scaler.step(optimizer);
///   scaler.update();
///
/// Gradients must be averaged over all ranks before unscale(): then every rank sees the same
/// infinity, and all skip the step without communication.
class GradScaler {
 public:
  /// `device`: the device of the gradients.
  explicit GradScaler(const GradScalerOptions& options = {}, torch::Device device = torch::kCPU);

  /// The loss times the scale.
  torch::Tensor scale(const torch::Tensor& loss) const;

  /// Divides all gradients by the scale, in place, and remembers whether one is not finite.
  /// REQUIRES: not called since the last update().
  void unscale(const Optimizer& optimizer);

  /// Runs the optimizer's step unless a gradient is not finite; yields whether it did. Unscales
  /// first if that was not done. REQUIRES: not called since the last update().
  bool step(Optimizer& optimizer);

  /// Halves the scale after a skipped step, doubles it after growth_interval other steps.
  /// REQUIRES: unscale() or step() before.
  void update();

  double current_scale() const { return scale_.item<double>(); }

  /// Python's state_dict: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker. A
  /// double holds each exactly.
  std::map<std::string, double> state() const;

  /// Restores a state(). Fails with kCorrupt, changing nothing, if a key is missing or has a value
  /// that state() cannot yield.
  Result<void> load(const std::map<std::string, double>& state);

 private:
  enum class Stage : std::uint8_t { kReady, kUnscaled, kStepped };

  GradScalerOptions options_;
  torch::Tensor scale_;           // scalar float32
  torch::Tensor growth_tracker_;  // scalar int32: good steps since the scale changed
  torch::Tensor found_inf_;       // scalar float32: 1 if a gradient is not finite
  Stage stage_ = Stage::kReady;
};

}  // namespace ddprun
