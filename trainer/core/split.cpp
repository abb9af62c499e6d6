#include "trainer/core/split.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddprun {
namespace {

/// The number to hold out of classes with these counts: rounded down, then one more for those with
/// the largest remainder, lower labels first, until the total is right.
std::vector<std::int64_t> quotas_of(const std::vector<std::int64_t>& counts, double fraction) {
  std::vector<std::int64_t> quotas;
  std::vector<double> rests;
  std::int64_t all = 0;
  for (const std::int64_t count : counts) {
    const double exact = static_cast<double>(count) * fraction;
    quotas.push_back(static_cast<std::int64_t>(std::floor(exact)));
    rests.push_back(exact - std::floor(exact));
    all += count;
  }
  const auto total = static_cast<std::int64_t>(std::llround(static_cast<double>(all) * fraction));
  std::vector<std::size_t> labels(counts.size());
  std::iota(labels.begin(), labels.end(), std::size_t{0});
  std::ranges::stable_sort(
      labels, std::ranges::greater(), [&](std::size_t at) { return rests[at]; });
  std::int64_t missing = total - std::reduce(quotas.begin(), quotas.end());
  for (const std::size_t label : labels) {
    if (missing <= 0) break;
    if (quotas[label] == counts[label]) continue;
    ++quotas[label];
    --missing;
  }
  return quotas;
}

}  // namespace

std::vector<std::int64_t> split_sizes(std::int64_t n, std::span<const double> fractions) {
  constexpr double kTolerance = 1e-6;
  const double sum = std::reduce(fractions.begin(), fractions.end(), 0.0);
  DDPRUN_CHECK(!fractions.empty() && std::abs(sum - 1) < kTolerance);
  std::vector<std::int64_t> sizes;
  for (const double fraction : fractions) {
    DDPRUN_CHECK(fraction >= 0 && fraction <= 1);
    sizes.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(n) * fraction)));
  }
  const std::int64_t rest = n - std::reduce(sizes.begin(), sizes.end());
  for (std::int64_t i = 0; i < rest; ++i) {
    ++sizes[static_cast<std::size_t>(i) % sizes.size()];
  }
  return sizes;
}

std::vector<std::vector<std::int64_t>> random_split(
    std::span<const std::int64_t> order, std::span<const std::int64_t> sizes) {
  std::vector<std::vector<std::int64_t>> parts;
  std::size_t at = 0;
  for (const std::int64_t size : sizes) {
    DDPRUN_CHECK(size >= 0 && at + static_cast<std::size_t>(size) <= order.size());
    const auto part = order.subspan(at, static_cast<std::size_t>(size));
    parts.emplace_back(part.begin(), part.end());
    at += static_cast<std::size_t>(size);
  }
  DDPRUN_CHECK(at == order.size());
  return parts;
}

std::vector<std::int64_t> pick(
    std::span<const std::int64_t> part, std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> samples;
  samples.reserve(positions.size());
  for (const std::int64_t position : positions) {
    DDPRUN_CHECK(position >= 0 && position < std::ssize(part));
    samples.push_back(part[static_cast<std::size_t>(position)]);
  }
  return samples;
}

StratifiedSplit stratified_split(
    std::span<const std::int64_t> order,
    std::int64_t classes,
    double fraction,
    const std::function<std::int64_t(std::int64_t)>& label_of) {
  DDPRUN_CHECK(fraction >= 0 && fraction <= 1 && classes >= 1);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t sample : order) {
    ++counts.at(static_cast<std::size_t>(label_of(sample)));
  }
  std::vector<std::int64_t> left = quotas_of(counts, fraction);
  StratifiedSplit split;
  for (const std::int64_t sample : order) {
    std::int64_t& quota = left[static_cast<std::size_t>(label_of(sample))];
    if (quota > 0) {
      --quota;
      split.held_out.push_back(sample);
    } else {
      split.train.push_back(sample);
    }
  }
  return split;
}

}  // namespace ddprun
