#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

/// The choice that `typed` was most likely meant to be, for "did you mean …?".
///
/// By Levenshtein distance, with a swap of neighbours counted once (optimal string alignment); none
/// if even the nearest differs in more than a third of its letters. If no whole choice is near, the
/// beginning of one counts: "--nporc" for --nproc-per-node.
std::optional<std::string> nearest(std::string_view typed, std::span<const std::string> choices);

}  // namespace ddprun
