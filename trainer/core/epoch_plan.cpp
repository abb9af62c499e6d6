#include "trainer/core/epoch_plan.hpp"

#include "base/check.hpp"
#include "trainer/core/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ddprun {
namespace {

/// Empty if some world sizes and batch sizes lead to `reached`.
std::string why_unreachable(const EpochReached& reached, std::int64_t samples, Tail tail) {
  const auto& [consumed, batches, last_world] = reached;
  if (batches == 0) return consumed == 0 ? "" : "no batch has consumed them";
  // The last batch begins before the end of the list. With kDrop it also ends there; with kPad all
  // of its ranks but the first may have a sample beyond the end.
  const std::int64_t world_max = last_world.value_or(Manifest::kWorldMax);
  const std::int64_t end = samples + (tail == Tail::kPad ? world_max - 1 : 0);
  if (consumed > end) return fmt::format("the epoch ends at {}", end);
  const std::int64_t before = batches - 1;  // each has at least one sample of each rank
  const std::int64_t world = last_world.value_or(1);
  if (before >= samples) return fmt::format("the epoch has at most {} batches", samples);
  if (consumed < before + world) {
    return fmt::format("with {} ranks there are at least {}", world, before + world);
  }
  if (before == 0 && consumed % world != 0) {
    return fmt::format("one batch of {} ranks is a multiple of {}", world, world);
  }
  return "";
}

}  // namespace

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
    // After the end the list starts over, as often as a large world needs it.
    samples.push_back(order[static_cast<std::size_t>(position % all)]);
  }
  return samples;
}

Result<void> check_reachable(const EpochReached& reached, std::int64_t samples, Tail tail) {
  const std::string why = why_unreachable(reached, samples, tail);
  if (why.empty()) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "'samples_consumed' is {} after {} batches, which is impossible with {} training "
          "samples: "
          "{}; give the data that it was saved with, or another --snapshot-dir to start over",
          reached.consumed,
          reached.batches,
          samples,
          why));
}

}  // namespace ddprun
