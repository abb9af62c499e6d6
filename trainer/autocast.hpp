#pragma once

#include <ATen/autocast_mode.h>

namespace ddprun {

/// Mixed precision during its lifetime: operations on `device` that gain from it (convolutions,
/// matrix products) compute in `type`, those that would suffer (losses, sums) in float32. Like
/// Python's torch.autocast: used around the forward pass and the loss, never around the backward
/// pass, which runs each operation in the type of its forward pass.
///
/// Cast weights are kept until the outermost guard ends, so that each is cast once per forward pass
/// and never used after a step has changed it.
///
/// Guards nest; they end in reverse order, on the thread that made them.
class Autocast {
 public:
  /// `type` is kBFloat16 or kHalf.
  Autocast(at::DeviceType device, at::ScalarType type)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)),
        was_cached_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(true);
  }

  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
    at::autocast::set_autocast_cache_enabled(was_cached_);
  }

  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType type_before_;
  bool was_cached_;
};

}  // namespace ddprun
