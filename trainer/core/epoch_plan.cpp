#include "trainer/core/epoch_plan.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace ddprun {

std::vector<std::int64_t> samples_of_rank(
    std::span<const std::int64_t> order, Share share, Tail tail, std::int64_t consumed) {
  DDPRUN_CHECK(share.rank >= 0 && share.rank < share.world && consumed >= 0);
  const std::int64_t all = std::ssize(order);
  const std::int64_t left = std::max<std::int64_t>(all - consumed, 0);
  const std::int64_t mine =
      tail == Tail::kPad ? batches_for(left, share.world) : left / share.world;

  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(mine));
  for (std::int64_t i = 0; i < mine; ++i) {
    const std::int64_t position = consumed + share.rank + i * share.world;
    // Behind the end the list begins again, as often as a large world needs it.
    samples.push_back(order[static_cast<std::size_t>(position % all)]);
  }
  return samples;
}

}  // namespace ddprun
