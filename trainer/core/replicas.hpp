#pragma once

// Whether all ranks have the same weights, as data parallelism takes for granted.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// The ranks, ascending, whose fingerprint is not the one that most have. Empty when all agree; all
/// ranks where two fingerprints are the most frequent, as always with two ranks that differ: nobody
/// can tell then which is right.
std::vector<std::size_t> odd_ranks(std::span<const std::string> fingerprints);

}  // namespace ddprun
