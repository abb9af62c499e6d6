#pragma once

#include "trainer/core/epoch_plan.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// A permutation of 0..n-1, as `torch.randperm(n, generator=g)` gives it in Python when `g` was
/// seeded with `seed`. The default generator is not touched.
std::vector<std::int64_t> random_order(std::int64_t n, std::uint64_t seed);

/// The order in which all ranks together walk `n` samples in an epoch: rule P10. Which of them a
/// rank takes is samples_of_rank(). Seed and epoch are added, as in Python, where their sum may not
/// be 2^64 or more.
std::vector<std::int64_t> epoch_order(
    std::int64_t n, std::uint64_t sampler_seed, std::int64_t epoch);

/// Draws the number that a new iterator of Python's DataLoader draws from the default generator
/// (rule P11): what dropout draws next depends on it.
void draw_as_data_loader();

}  // namespace ddprun
