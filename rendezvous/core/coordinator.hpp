#pragma once

// Coordinator: who takes part in a round, and how the job continues, decided in one place for as
// long as this node leads. Every node, its own included, is a link; what arrives there comes in,
// what is to be sent goes out. It keeps the lease, and passes each event to the parts that it
// concerns:
//
//   Roster       which nodes are here, connections, lifelines, expiry    (roster.hpp)
//   RankClaims   callers that ask for the node rank of another node      (rank_claims.hpp)
//   Gathering    what the next round waits for                           (gathering.hpp)
//   Rounds       the round: a table of phase and event                   (round.hpp, rounds.hpp)
//   Restarts     what follows from a worker's failure                    (restarts.hpp)
//   JobEnd       notice, verdict, and who has heard it                   (job_end.hpp)
//
// A node of the round has *ended* if it said so, its death is proved, or its lease has run out:
// never by a closed connection alone (R2).

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/gathering.hpp"
#include "rendezvous/core/job_end.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/leader_lease.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/lost_nodes.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/rank_claims.hpp"
#include "rendezvous/core/restart_budget.hpp"
#include "rendezvous/core/roster.hpp"
#include "rendezvous/core/round.hpp"
#include "rendezvous/core/rounds.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

class Coordinator {
 public:
  using Phase = RoundPhase;
  using Node = Roster::Node;
  using Round = ddprun::Round;

  /// `policy` outlives it. `self` leads from `now` on, if a majority answers.
  Coordinator(
      const RendezvousPolicy& policy,
      NodeInfo self,
      const ElectionResult& election_result,
      TimePoint now);
  ~Coordinator() = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void join(Link link, const Hello& hello, TimePoint now, Effects& out);
  void received(Link link, const Message& message, TimePoint now, Effects& out);
  void lost(Link link, TimePoint now, Effects& out);
  /// The lifeline of that node to us is held on both sides.
  void line_opened(Incarnation node, TimePoint now, Effects& out);
  /// Nothing of that node runs any more.
  void line_ended(Incarnation node, TimePoint now, Effects& out);
  /// The lifeline of that node to us is gone, which proves nothing.
  void line_dropped(Incarnation node) { roster_.lifeline_gone(node); }
  /// A worker of the round has spoken to this node's store.
  void store_reached() { rounds_.store_reached(); }
  void tick(TimePoint now, Effects& out);
  /// As Gathering::hold_for.
  void hold_for(const NodeInfo& node, TimePoint now) { gathering_.hold_for(node, now); }
  void hold_no_more_for(const NodeInfo& node) { gathering_.hold_no_more_for(node); }
  /// Another instance of this job, begun earlier, runs: this one ends.
  void end_as_double(const std::string& why, Effects& out);
  /// What is left when this leadership ends.
  PastLeadership past() const;

  /// Until when a majority keeps anybody else from leading; kNever: nobody else could.
  TimePoint leads_until() const { return lease_.until(); }
  /// When so many were last heard as make a majority, or longer ago.
  TimePoint majority_heard_at() const;
  /// It may not lead any more (E2).
  bool is_fenced() const { return lease_.is_over(); }
  std::optional<TimePoint> next_deadline() const;

  /// The node that leads, whose policy may name an earlier incarnation of it.
  Incarnation self() const { return context_.self.incarnation; }
  const Instance& instance() const { return context_.instance; }
  std::int64_t term() const { return context_.term; }
  /// A round of this instance was started, now or by an earlier leader.
  bool has_begun() const { return rounds_.has_begun(); }
  Phase phase() const { return rounds_.phase(); }
  /// Between two rounds, a while before the next one may be offered.
  bool is_pausing(TimePoint now) const {
    return phase() == Phase::kGathering && has_begun() && gathering_.is_pausing(now);
  }
  const std::map<Incarnation, Node>& nodes() const { return roster_.nodes(); }
  /// How many nodes have a lifeline to us.
  std::size_t lifelines() const { return roster_.lifelines(); }
  /// Nodes that it lost or never seen, and that may live.
  const LostNodes& lost_nodes() const { return roster_.lost(); }
  /// The present or the last one; null before the first offer.
  const Round* round() const { return rounds_.round().id.number == 0 ? nullptr : &rounds_.round(); }
  const Progress& progress() const { return rounds_.progress(); }
  const RestartBudget& budget() const { return rounds_.restarts().budget(); }
  const std::optional<Verdict>& verdict() const { return end_.verdict(); }
  /// Why that node, one of nodes(), should not run workers; empty: it may.
  std::string why_unfit(const Node& node) const { return roster_.why_unfit(node, seen_); }

 private:
  void on(Node& node, const Heartbeat& heartbeat, TimePoint now, Effects& out);
  void on(Node& node, const Confirm& confirm, TimePoint now, Effects& out);
  void on(Node& node, const Acknowledge& acknowledge, TimePoint now, Effects& out);
  void on(Node& node, const WorkerNews& news, TimePoint now, Effects& out);
  void on(Node& node, const FailureText& failure, TimePoint now, Effects& out);
  void on(Node& node, const Leaving& leaving, TimePoint now, Effects& out);
  void on(Node& node, const VerdictHeard& heard, TimePoint now, Effects& out);
  template <class Other>
  void on(Node& /*node*/, const Other& /*not for leaders*/, TimePoint /*now*/, Effects& /*out*/) {}

  bool keep_lead(TimePoint now, Effects& out);
  void expire(TimePoint now, Effects& out);
  void advance(TimePoint now, Effects& out);
  void act(TimePoint now, Effects& out);

  void postpone(Link link, const Hello& hello, const Node& holder, TimePoint now, Effects& out);
  void refuse_claims(const Node& holder, Effects& out);
  void admit_claims(TimePoint now, Effects& out);
  void remove(Incarnation node, const std::string& why, TimePoint now, Effects& out);

  void gather(TimePoint now, Effects& out);
  void consider_failure(TimePoint now, Effects& out);
  void fail(const Restarts::Failure& first, TimePoint now, Effects& out);
  void end_by(int signal, const std::string& host, TimePoint now, Effects& out);
  void stop(std::optional<StopRound> order, TimePoint now, Effects& out);
  void decide(Verdict verdict, Effects& out, StopRound order = {});

  LeaderContext context_;
  LeaderLease lease_;
  Roster roster_;
  RankClaims claims_;
  Rounds rounds_;
  Gathering gathering_;
  JobEnd end_;
  TimePoint seen_;  // the present, as of the last event
};

}  // namespace ddprun
