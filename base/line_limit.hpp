#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace ddprun {

/// Limits how many lines a cause in another process's hands can write: 20 at once, and one more for
/// each second. Counts what is left out.
class LineLimit {
 public:
  /// How many lines were left out since the last one that was written; none: this one is to be left
  /// out too.
  std::optional<std::size_t> take(TimePoint now) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now - refilled_at_);
    const auto left = std::min<std::chrono::seconds::rep>(kBurst, left_ + seconds.count());
    left_ = left;
    refilled_at_ += seconds;
    if (left_ == 0) {
      leave_out();
      return std::nullopt;
    }
    --left_;
    return std::exchange(left_out_, 0);
  }

  /// One more could not be written.
  void leave_out() { ++left_out_; }

 private:
  static constexpr std::chrono::seconds::rep kBurst = 20;

  std::chrono::seconds::rep left_ = kBurst;
  TimePoint refilled_at_;
  std::size_t left_out_ = 0;
};

}  // namespace ddprun
