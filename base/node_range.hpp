#pragma once

#include "base/error.hpp"

#include <string_view>

namespace ddprun {

/// How many nodes a job accepts; "4" or "2:4" on the command line.
///
/// Both ends are inclusive and count nodes, not workers or GPUs. Invariant: 1 <= min() <= max() <=
/// kMaxNodes, so nothing checks it again.
class NodeRange {
 public:
  static constexpr int kMaxNodes = 16'384;

  /// Reads "N" or "MIN:MAX". Fails with kInvalidArgument, saying what is wrong.
  static Result<NodeRange> parse(std::string_view text);

  /// REQUIRES: 1 <= min <= max <= kMaxNodes.
  NodeRange(int min, int max);

  int min() const { return min_; }
  int max() const { return max_; }
  bool operator==(const NodeRange&) const = default;

 private:
  int min_;
  int max_;
};

}  // namespace ddprun
