#pragma once

// A life line: a second, silent connection of each node to its leader, whose descriptor on the
// node's side is held by its front, its agent and every worker. The kernel closes it when the last
// of them has ended, so its end proves that nothing of that node runs. The leader's side proves the
// same of the leader, but by a byte, since too many processes would have to hold its ends.

#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/secret_proof.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

/// The first words on a life line: whose life it is. Silence follows.
struct LineHello {
  std::string job;
  Incarnation node{};
  std::int64_t generation = 0;  // of the leader that it is opened to
  std::string proof;            // of the job's secret, for this very line; empty: there is none

  bool operator==(const LineHello&) const = default;
};

/// What LineHello::proof is to be. Without it a stranger who has read an incarnation from /status
/// could open a line in that node's name, and prove its death by closing it.
std::string line_proof(const Mac& mac, const LineHello& hello);

/// The one byte that is ever said after that, by the leader's side: "Nothing of this node runs any
/// more."
inline constexpr char kFarewell = 'F';

}  // namespace ddprun
