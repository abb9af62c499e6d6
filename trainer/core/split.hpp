#pragma once

// Splits samples into training and validation. The permutation is an argument: with random_order()
// of trainer/sampler.hpp the parts equal Python's.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ddprun {

/// The sizes of torch's random_split for these fractions: rounded down, with the remainder
/// distributed one by one from the first part. REQUIRES: each is in 0..1, their sum is 1.
std::vector<std::int64_t> split_sizes(std::int64_t n, std::span<const double> fractions);

/// `torch.utils.data.random_split`: consecutive parts of a permutation of all samples.
/// REQUIRES: the sizes add up to the permutation's.
std::vector<std::vector<std::int64_t>> random_split(
    std::span<const std::int64_t> order, std::span<const std::int64_t> sizes);

/// The samples at these positions of a part: converts the output of a sampler that counts the part
/// from 0 to numbers of the whole data set. REQUIRES: each position is in the part.
std::vector<std::int64_t> pick(
    std::span<const std::int64_t> part, std::span<const std::int64_t> positions);

/// Two parts, each with a proportional share of every class.
struct StratifiedSplit {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> held_out;
};

/// Holds out `fraction` of the samples, and of each class the same fraction to within one sample.
/// Of each class, the first in `order` are held out; both parts keep the order of `order`. The
/// total is the rounded fraction of all; classes that lost most by rounding get one more.
/// REQUIRES: 0 <= fraction <= 1; label_of yields 0..classes-1.
StratifiedSplit stratified_split(
    std::span<const std::int64_t> order,
    std::int64_t classes,
    double fraction,
    const std::function<std::int64_t(std::int64_t)>& label_of);

}  // namespace ddprun
