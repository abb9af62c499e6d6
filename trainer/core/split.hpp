#pragma once

// Parting samples into training and validation. The permutation comes in as an argument: with
// random_order() of trainer/sampler.hpp the parts are those of Python.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ddprun {

/// How many samples each part of torch's random_split has for these fractions: rounded down, what
/// is left over given out one by one from the first. REQUIRES: each is in 0..1, their sum is 1.
std::vector<std::int64_t> split_sizes(std::int64_t n, std::span<const double> fractions);

/// `torch.utils.data.random_split`: consecutive parts of a permutation of all samples.
/// REQUIRES: the sizes add up to the permutation's.
std::vector<std::vector<std::int64_t>> random_split(
    std::span<const std::int64_t> order, std::span<const std::int64_t> sizes);

/// The samples that stand at these positions of a part: what a sampler that counts the part from 0
/// gives, in numbers of the whole. REQUIRES: each position lies in the part.
std::vector<std::int64_t> pick(
    std::span<const std::int64_t> part, std::span<const std::int64_t> positions);

/// Two parts in each of which every class has its share.
struct StratifiedSplit {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> held_out;
};

/// Holds out `fraction` of the samples, and of each class the same to within one sample. Within a
/// class the first in the order are held out; both parts keep the order of `order`. The total is
/// the fraction of all, rounded, and classes that lost most by rounding get one more.
/// REQUIRES: 0 <= fraction <= 1; label_of yields 0..classes-1.
StratifiedSplit stratified_split(
    std::span<const std::int64_t> order,
    std::int64_t classes,
    double fraction,
    const std::function<std::int64_t(std::int64_t)>& label_of);

}  // namespace ddprun
