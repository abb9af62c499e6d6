#pragma once

// Numbers of peers that are too large to be true. Terms, rounds and restarts are counted on by
// whoever leads next, from the largest that it has heard of. A peer that reports the largest number
// that a message can hold would stop all elections: no node could read the next one.

#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/voter_state.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// What only grows in the life of a job.
struct Counts {
  std::int64_t term = 0;
  std::int64_t round = 0;
  std::int64_t restarts = 0;

  bool operator==(const Counts&) const = default;
};

/// How far a message may be ahead of a node that knows the job. No node misses so many elections,
/// rounds or restarts, and an election adds at most a thousand terms.
inline constexpr std::int64_t kAheadMax = 1'000'000;

/// What a node believes that does not know the job yet. Far from the limits of the messages, 10^15
/// terms and rounds and 10^9 restarts.
inline constexpr Counts kNewcomerMax{
    .term = 1'000'000'000'000, .round = 1'000'000'000'000, .restarts = 100'000'000};

/// The largest of each in `message`.
Counts counts_in(const Message& message);

/// Why `message` is not to be believed by a node that knows `known`: a clause for people. Empty: it
/// is.
std::string why_far_ahead(const Message& message, const VoterState& known);

}  // namespace ddprun
