#include "base/node_range.hpp"

#include "base/check.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"

namespace ddprun {
Result<NodeRange> NodeRange::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto min = parse_int<int>(text.substr(0, colon));
  const auto max = colon == std::string_view::npos ? min : parse_int<int>(text.substr(colon + 1));

  if (!min || !max) return invalid_argument("expected N or MIN:MAX");
  if (*min < 1) return invalid_argument("a job needs at least one node");
  if (*min > *max) return invalid_argument("the minimum exceeds the maximum");
  if (*max > kMaxNodes) return invalid_argument("the limit is {}", kMaxNodes);
  return NodeRange(*min, *max);
}

NodeRange::NodeRange(int min, int max) : min_(min), max_(max) {
  DDPRUN_CHECK(1 <= min && min <= max && max <= kMaxNodes);
}

}  // namespace ddprun
