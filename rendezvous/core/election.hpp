#pragma once

// Election: what a node without a leader does with the nodes that call it. They wait here and tell
// whether they are ready to vote. Once their votes would make this node the leader, it takes its
// turn and asks for them (candidate.hpp). As long as they would not, people are told why.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/quorum_loss.hpp"

#include <map>
#include <optional>
#include <utility>

namespace ddprun {

class Election {
 public:
  /// A node that called, and waits here for a leader.
  struct Caller {
    Hello hello;
    std::optional<PreVote> pre_vote;
    std::optional<Wait> sent;
    TimePoint until;  // one that lives has sent something by then, or has hung up
  };
  using Callers = std::map<Link, Caller>;

  /// What it takes outlives it.
  Election(const RendezvousPolicy& policy, Member& member) : policy_(policy), member_(member) {}

  // The callers. -------------------------------------------------------------------------------

  bool has_callers() const { return !callers_.empty(); }
  bool has_room() const { return callers_.size() < kCallersMax; }
  void await(Link link, const Hello& hello, TimePoint now);
  void closed(Link link) { callers_.erase(link); }
  void on(Link link, const PreVote& pre_vote, TimePoint now, Effects& out);
  void on(Link link, const Vote& vote, TimePoint now);
  /// A machine that lost power closes no connection. As long as it counted as one that waits here,
  /// this node would wait for its vote and call no other.
  void drop_silent_callers(TimePoint now, Effects& out);
  /// Tells them `leader`, and closes the connections: they find it as this node did.
  void send_away(const Redirect& leader, Effects& out);
  /// Tells them for which node to wait. REQUIRES: this node has no leader.
  void report_awaited(TimePoint now, Effects& out);
  /// This node leads: no votes are gathered, and the callers are the leader's.
  Callers end();

  // The votes. ---------------------------------------------------------------------------------

  /// Nodes that are silent, and whose name or rank a new node has that waits here (E9).
  void mind_replacements(TimePoint now);
  /// Takes this node's turn if the callers suffice, whichever node it calls or waits for. Not if
  /// that node waits here as well, and has been told so.
  void mind_turn(TimePoint now, Effects& out);
  /// Gathers votes while it is this node's turn. Yields what it leads with, once they suffice.
  std::optional<ElectionResult> mind_candidacy(TimePoint now, Effects& out);
  /// It is known which node holds the fence of the voter set of `round`.
  void fence_held(Incarnation instance, RoundId round, Incarnation holder);

  /// For people, once no node has come to lead for a while; `of_instance`: of an instance that this
  /// node never belonged to, and waits for. At most once a second, since it counts all votes.
  void mind_quorum_loss(const std::optional<QuorumLoss>& of_instance, TimePoint now, Effects& out);

  TimePoint next_deadline() const { return callers_due_; }

 private:
  struct Fence {
    Instance instance;
    std::optional<Incarnation> holder;  // none: not known yet
  };

  static constexpr std::size_t kCallersMax = 16'384;

  void extend(Caller& caller, TimePoint now);
  void request_vote(Link link, Caller& caller, TimePoint now, Effects& out);
  Candidate::Setting setting(TimePoint now) const;
  bool would_win(TimePoint now) const { return would_win(member_.voter(), policy_.has_fence, now); }
  bool would_win(const Voter& voter, bool has_fence, TimePoint now) const;
  void claim_fences(Candidate& candidate, TimePoint now, Effects& out);
  QuorumLossFacts quorum_loss_facts(TimePoint now) const;

  const RendezvousPolicy& policy_;
  Member& member_;
  Callers callers_;
  TimePoint callers_due_ = kNever;  // none is silent for too long before
  std::optional<Candidate> candidate_;
  std::map<RoundId, Fence> fences_;  // claimed, by voter set
  TimePoint described_at_;           // the lost quorum, the last time
};

}  // namespace ddprun
