#pragma once

// How much a run prints, and on which rank (T33).

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Ordered: each level includes the output of the levels before it.
enum class Verbosity : std::uint8_t {
  kWarning,    // without a flag: a summary of the run, and problems
  kInfo,       // -v: steps
  kDebug,      // -vv: how a step spends its time
  kEveryRank,  // -vvv: the same for every rank, and its memory
};

/// The level for `times` times -v; more than three count as three. REQUIRES: times >= 0.
Verbosity verbosity_of(int times);

/// "[1/8] - ": ranks are counted from 1, as Mila's ImageNet example does.
std::string rank_prefix(int rank, int world);

/// `text` with the prefix before each of its lines, and a line break at the end.
std::string prefixed_lines(int rank, int world, std::string_view text);

}  // namespace ddprun
