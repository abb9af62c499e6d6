#pragma once

#include "base/error.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/device.hpp"

#include <cstdint>
#include <optional>

namespace ddprun {

/// A loader's batches on a device. If the device copies, the next batch is copied while one is in
/// use (T22): it is loaded one batch early, and its errors are reported one batch early.
///
///   feeder.load();  batch = feeder.take();
class Feeder {
 public:
  /// When a batch is loaded and copied.
  enum class Order : std::uint8_t {
    kEarly,
    kWhenUsed,  // its samples draw from the default generator, whose state a snapshot has
  };

  /// Both outlive it. REQUIRES: the loader has been started.
  Feeder(Loader& loader, Device& device, Order order = Order::kEarly)
      : loader_(loader), device_(device), is_early_(device.copies() && order == Order::kEarly) {}

  /// Waits for the loader. Fails as Loader::next().
  Result<void> load();

  /// The next batch, for computations on the device; none after the last. REQUIRES: a load() before
  /// each.
  std::optional<Batch> take();

  /// load() and take().
  Result<std::optional<Batch>> next();

 private:
  Result<std::optional<Batch>> next_of_loader();
  Batch begin_copy(const Batch& batch);

  Loader& loader_;
  Device& device_;
  const bool is_early_;
  bool is_begun_ = false;
  bool is_at_end_ = false;
  std::optional<Batch> loaded_;     // in CPU memory
  std::optional<Batch> under_way_;  // being copied to the device
};

}  // namespace ddprun
