#include "base/node_range.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ddprun {
Result<NodeRange> NodeRange::parse(std::string_view text) {
  const auto refused = [](std::string why) {
    return make_error(Errc::kInvalidArgument, std::move(why));
  };
  const std::size_t colon = text.find(':');
  const auto min = parse_int<int>(text.substr(0, colon));
  const auto max = colon == std::string_view::npos ? min : parse_int<int>(text.substr(colon + 1));

  if (!min || !max) return refused("expected N or MIN:MAX");
  if (*min < 1) return refused("a job needs at least one node");
  if (*min > *max) return refused("the minimum exceeds the maximum");
  if (*max > kMaxNodes) return refused(fmt::format("the limit is {}", kMaxNodes));
  return NodeRange(*min, *max);
}

NodeRange::NodeRange(int min, int max) : min_(min), max_(max) {
  DDPRUN_CHECK(1 <= min && min <= max && max <= kMaxNodes);
}

}  // namespace ddprun
