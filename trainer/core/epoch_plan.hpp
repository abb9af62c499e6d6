#pragma once

// The arithmetic of epochs, batches and ranks. All ranks go through one list of samples together,
// so the position in an epoch is one number at any world size: the samples consumed by all ranks.

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

/// What to do if the world size does not divide the list.
enum class Tail : std::uint8_t {
  kPad,   // samples from the start of the list are repeated
  kDrop,  // the remainder is not used
};

/// One rank of a world. 0 <= rank < world.
struct Share {
  int rank = 0;
  int world = 1;
};

/// This rank's samples of an epoch, in order, after all ranks together have `consumed` some:
/// positions consumed + rank, + world, + 2 world, … of `order`.
///
/// Equals Python's DistributedSampler. With consumed > 0 it is the rest of its list, if the samples
/// before were consumed at the same world size; at another one every remaining sample still occurs
/// once.
std::vector<std::int64_t> samples_of_rank(
    std::span<const std::int64_t> order, Share share, Tail tail, std::int64_t consumed);

/// The position in its epoch that a snapshot records.
struct EpochReached {
  std::int64_t consumed = 0;
  std::int64_t batches = 0;
  std::optional<std::int64_t> last_world;  // world size of the last batch; none: not known
};

/// Fails with kInvalidArgument, naming the value and what to do, if no sequence of world and batch
/// sizes leads to `reached` in an epoch of `samples`. REQUIRES: consumed and batches are >= 0.
Result<void> check_reachable(const EpochReached& reached, std::int64_t samples, Tail tail);

/// The number of batches of `samples`, of which the last may be smaller.
constexpr std::int64_t batches_for(std::int64_t samples, std::int64_t batch_size) {
  return (samples + batch_size - 1) / batch_size;
}

/// The number of steps of an epoch of `samples`, including the padded tail.
constexpr std::int64_t steps_per_epoch(
    std::int64_t samples, std::int64_t batch_size, std::int64_t world) {
  return batches_for(batches_for(samples, world), batch_size);
}

}  // namespace ddprun
