#pragma once

#include "trainer/core/epoch_plan.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// A permutation of 0..n-1, equal to Python's `torch.randperm(n, generator=g)` with `g` seeded with
/// `seed`. Does not use the default generator.
std::vector<std::int64_t> random_order(std::int64_t n, std::uint64_t seed);

/// The order in which all ranks together go through `n` samples in an epoch: rule P10.
/// samples_of_rank() selects those of a rank. Seed and epoch are added, as in Python, where their
/// sum must be below 2^64.
std::vector<std::int64_t> epoch_order(
    std::int64_t n, std::uint64_t sampler_seed, std::int64_t epoch);

/// Draws the number that a new iterator of Python's DataLoader draws from the default generator
/// (rule P11), because it changes the later draws of dropout.
void draw_as_data_loader();

}  // namespace ddprun
