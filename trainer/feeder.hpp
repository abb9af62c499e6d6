#pragma once

#include "base/error.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/device.hpp"

#include <cstdint>
#include <optional>

namespace ddprun {

/// A loader's batches on a device. Where that copies, the next batch is on its way while one is in
/// use (T22): so it is loaded one batch early, and what is wrong with it is reported one early.
///
///   feeder.load();  batch = feeder.take();
class Feeder {
 public:
  /// When a batch is loaded and copied.
  enum class Order : std::uint8_t {
    kEarly,
    kWhenUsed,  // its samples draw from the default generator, of which a snapshot has the state
  };

  /// Both outlive it. The loader has been started.
  Feeder(Loader& loader, Device& device, Order order = Order::kEarly)
      : loader_(loader), device_(device), is_early_(device.copies() && order == Order::kEarly) {}

  /// Waits for the loader. Fails as Loader::next().
  Result<void> load();

  /// The next batch, for calculations of the device; none behind the last. REQUIRES: a load()
  /// before each.
  std::optional<Batch> take();

  /// Both.
  Result<std::optional<Batch>> next();

 private:
  Result<std::optional<Batch>> next_of_loader();
  Batch begin_copy(const Batch& batch);

  Loader& loader_;
  Device& device_;
  const bool is_early_;
  bool is_begun_ = false;
  bool is_at_end_ = false;
  std::optional<Batch> loaded_;     // in the CPU's memory
  std::optional<Batch> under_way_;  // to the device
};

}  // namespace ddprun
