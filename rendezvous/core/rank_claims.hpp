#pragma once

// RankClaims: callers that ask for the node rank of another node. A node may be there while it has
// a lease, or while its connection is slow, so its rank is not given away: a caller waits until
// that node is lost, or is heard to live. What a node sent before it was killed may arrive later,
// from a kernel that lived on: only a node that confirms a reply that was sent since lives.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/roster.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

class RankClaims {
 public:
  /// `context` and `roster` outlive it.
  RankClaims(const LeaderContext& context, const Roster& roster)
      : context_(context), roster_(roster) {}

  bool empty() const { return claims_.empty(); }
  /// The other node that has the node rank `asking` asks for; null: `asking` may have it.
  const Roster::Node* holder_of_rank(const NodeInfo& asking) const;

  /// The caller waits for the rank.
  void add(Link link, const Hello& hello, TimePoint now);
  /// The connection of a caller ended.
  void lost(Link link) { claims_.erase(link); }
  /// `holder` is heard. Refuses those that wait for its rank since before `replied_at`, when the
  /// newest reply was sent that `holder` confirmed. Yields their names: " and n1 (10.0.0.1:29400)".
  std::string refuse(const Roster::Node& holder, TimePoint replied_at, Effects& out);
  /// A caller whose rank is free now; none: all wait on.
  std::optional<std::pair<Link, Hello>> take_free();

 private:
  struct Claim {
    Hello hello;
    TimePoint since;
  };

  const LeaderContext& context_;
  const Roster& roster_;
  std::map<Link, Claim> claims_;
};

}  // namespace ddprun
