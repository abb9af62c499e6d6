#include "trainer/core/replicas.hpp"

#include <algorithm>
#include <map>

namespace ddprun {

std::vector<std::size_t> odd_ranks(std::span<const std::string> fingerprints) {
  std::map<std::string, std::ptrdiff_t> counts;
  for (const std::string& fingerprint : fingerprints) {
    ++counts[fingerprint];
  }
  const auto common = std::ranges::max_element(
      counts, {}, &std::map<std::string, std::ptrdiff_t>::value_type::second);
  const auto is_as_frequent = [&common](const auto& each) { return each.second == common->second; };
  const bool is_undecided = std::ranges::count_if(counts, is_as_frequent) > 1;
  std::vector<std::size_t> odd;
  for (std::size_t rank = 0; rank < fingerprints.size(); ++rank) {
    if (is_undecided || fingerprints[rank] != common->first) odd.push_back(rank);
  }
  return odd;
}

}  // namespace ddprun
