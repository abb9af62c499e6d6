#pragma once

// Notices: calls that carry one message and end. A leader reports that it leads, to nodes that may
// not know: at the endpoint for good, at successors for a while. A node that searches for a leader
// reports at the endpoint that it survived, because a node that lost its memory may bootstrap the
// job there a second time.

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ddprun {

class Notices {
 public:
  /// What it takes outlives it.
  Notices(const RendezvousPolicy& policy, const Member& member)
      : policy_(policy), member_(member) {}

  /// This node begins to lead that term.
  void lead(std::int64_t term, TimePoint now);
  /// Calls `to`, unless that was just done.
  void call(const Endpoint& to, TimePoint now, Effects& out);
  /// Whether `link` is a call of this class that was taken: then it sends its message, with
  /// `leader` if one is known, and ends the call.
  bool connected(Link link, const std::optional<Redirect>& leader, TimePoint now, Effects& out);
  void closed(Link link) { calls_.erase(link); }

  /// The calls of a leader, as they are due.
  void announce(const Coordinator& leads, TimePoint now, Effects& out);
  /// The calls of a node that searches for a leader, as they are due. The endpoint comes last of
  /// the candidate addresses, and each may take a while, so it is called besides.
  void mind_search(bool is_searching, TimePoint now, Effects& out);

  /// REQUIRES: this node leads.
  TimePoint announce_at() const { return announce_at_; }
  /// REQUIRES: it does not.
  TimePoint endpoint_at() const { return endpoint_at_.value_or(kNever); }

 private:
  struct Call {
    Endpoint to;
    TimePoint until;  // it gets no reply
  };

  std::vector<Endpoint> uninformed(const Coordinator& leads) const;
  void drop_stale(TimePoint now, Effects& out);

  const RendezvousPolicy& policy_;
  const Member& member_;
  std::map<Link, Call> calls_;
  std::uint64_t made_ = 0;
  TimePoint announce_at_;
  TimePoint announce_until_;              // at other nodes than the endpoint's
  std::optional<TimePoint> endpoint_at_;  // while this node searches for a leader
};

}  // namespace ddprun
