#pragma once

// A lifeline: a second, silent connection of each node to its leader, whose descriptor on the
// node's side is held by its guard, its agent and every worker. The kernel closes it when the last
// of them has ended, so its end proves that nothing of that node runs. The leader's side proves the
// same of the leader: by a byte (kGoodbye) on every line, and by the end of those few that its
// workers hold as well (kHeld); all its ends would be too many for them.

#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// The first message on a lifeline: which node it stands for. Silence follows. If nodes
/// authenticate each other, the leader's side first sends a frame of its own, a nonce for the
/// proof.
struct LifelineHello {
  std::string job;
  Incarnation node{};
  Leadership leadership;  // that it is opened to
  std::string proof;      // for this very connection; empty: nodes prove nothing

  bool operator==(const LifelineHello&) const = default;
};

/// The frame that the leader's side sends first. REQUIRES: is_nonce(nonce).
std::string line_challenge(std::string_view nonce);

/// The nonce in such a frame. Fails with kProtocol if it is none.
Result<std::string> nonce_of_line(std::string_view frame);

/// What LifelineHello::proof is to be: a MAC under the leader's key, of everything else in `hello`,
/// for the connection that began with `nonce`. Without it somebody who knows an incarnation could
/// open a line in that node's name, and prove its death by closing it; without the nonce, whoever
/// has recorded a line could. None if `mac` is none.
std::string line_proof(const Mac& mac, std::string_view nonce, const LifelineHello& hello);

// The bytes that are sent after that. A receiver ignores any other byte.

/// By the leader's side, the last one: "Nothing of this node runs any more."
inline constexpr char kGoodbye = 'F';

/// By the leader's side: "My guard, my agent and each of my workers, also those that I start later,
/// hold this end." From then on its end says what kGoodbye says.
inline constexpr char kHeld = 'H';

/// By either side, to a node that fell silent: "Does your kernel still know this line?" A data
/// byte, since a kernel that keeps a closed socket until its FIN is confirmed answers a keepalive
/// probe with an ACK, but resets a socket that is sent data which nobody can read any more.
inline constexpr char kProbe = '?';

/// How many of a leader's ends its workers hold: those of its first successors.
inline constexpr int kHeldEndsMax = 8;

}  // namespace ddprun
