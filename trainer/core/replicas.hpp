#pragma once

// Checks that all ranks have the same weights, as data parallelism assumes.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// The ranks, ascending, whose fingerprint differs from that of the majority. Empty if all are
/// equal. All ranks if two fingerprints are equally frequent, as always with two ranks that differ:
/// then it is not known which one is right.
std::vector<std::size_t> odd_ranks(std::span<const std::string> fingerprints);

}  // namespace ddprun
