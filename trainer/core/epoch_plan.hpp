#pragma once

// The arithmetic of epochs, batches and ranks. All ranks walk one list of samples together, so how
// far an epoch has come is one number, whatever the world size: the samples consumed by all ranks.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

/// What a list that does not divide by the world size does.
enum class Tail : std::uint8_t {
  kPad,   // samples from the start of the list are repeated
  kDrop,  // what is left over is not used
};

/// One rank of a world. 0 <= rank < world.
struct Share {
  int rank = 0;
  int world = 1;
};

/// This rank's samples of an epoch, in order, when all ranks together have `consumed` already:
/// positions consumed + rank, + world, + 2 world, … of `order`.
///
/// Python's DistributedSampler, and with consumed > 0 the rest of what it gives, provided that the
/// samples before were consumed at the same world size. At another one every sample left is still
/// given once.
std::vector<std::int64_t> samples_of_rank(
    std::span<const std::int64_t> order, Share share, Tail tail, std::int64_t consumed);

/// How far a snapshot says that its epoch has come.
struct EpochReached {
  std::int64_t consumed = 0;
  std::int64_t batches = 0;
  std::optional<std::int64_t> last_world;  // that made the last batch; none: not known
};

/// Fails with kInvalidArgument, naming the value and what to do, if no sequence of world and batch
/// sizes comes to `reached` in an epoch of `samples`. REQUIRES: consumed and batches are >= 0.
Result<void> check_reachable(const EpochReached& reached, std::int64_t samples, Tail tail);

/// How many batches hold `samples`, the last one perhaps not full.
constexpr std::int64_t batches_for(std::int64_t samples, std::int64_t batch_size) {
  return (samples + batch_size - 1) / batch_size;
}

/// How many steps an epoch of `samples` takes, the padded tail included.
constexpr std::int64_t steps_per_epoch(
    std::int64_t samples, std::int64_t batch_size, std::int64_t world) {
  return batches_for(batches_for(samples, world), batch_size);
}

}  // namespace ddprun
