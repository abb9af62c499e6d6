#pragma once

// How much a run says, and which rank says it (T33).

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Ordered: each level says what those before it say, and more.
enum class Verbosity : std::uint8_t {
  kWarning,    // without a flag: what a run is about, and what went wrong
  kInfo,       // -v: steps
  kDebug,      // -vv: where the time of a step goes
  kEveryRank,  // -vvv: the same of every rank, and its memory
};

/// The level of `times` a -v: more than three are three. REQUIRES: times >= 0.
Verbosity verbosity_of(int times);

/// "[1/8] - ": ranks are counted from 1, as Mila's ImageNet example does.
std::string rank_prefix(int rank, int world);

/// `text` with the prefix before each of its lines, and a line break at the end.
std::string prefixed_lines(int rank, int world, std::string_view text);

}  // namespace ddprun
