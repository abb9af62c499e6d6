#pragma once

// Whether all ranks have the same weights, as data parallelism takes for granted.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ddprun {

/// A SHA-256.
using Fingerprint = std::array<std::byte, 32>;

/// The ranks, ascending, whose fingerprint is not the one that most have; of equally frequent ones
/// that of the lowest rank counts. Empty when all agree.
std::vector<std::size_t> odd_ranks(std::span<const Fingerprint> fingerprints);

}  // namespace ddprun
