#include "trainer/core/replicas.hpp"

#include <algorithm>
#include <map>

namespace ddprun {

std::vector<std::size_t> odd_ranks(std::span<const std::string> fingerprints) {
  std::map<std::string, std::ptrdiff_t> counts;
  for (const std::string& fingerprint : fingerprints) {
    ++counts[fingerprint];
  }
  // max_element yields the first of the largest, so the lowest rank decides between equals.
  const auto common =
      std::ranges::max_element(fingerprints, {}, [&counts](const std::string& fingerprint) {
        return counts.at(fingerprint);
      });
  std::vector<std::size_t> odd;
  for (std::size_t rank = 0; rank < fingerprints.size(); ++rank) {
    if (fingerprints[rank] != *common) odd.push_back(rank);
  }
  return odd;
}

}  // namespace ddprun
