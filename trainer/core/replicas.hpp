#pragma once

// Whether all ranks have the same weights, as data parallelism takes for granted.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// The ranks, ascending, whose fingerprint is not the one that most have; of equally frequent ones
/// that of the lowest rank counts. Empty when all agree.
std::vector<std::size_t> odd_ranks(std::span<const std::string> fingerprints);

}  // namespace ddprun
