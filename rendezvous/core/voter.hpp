#pragma once

// Voter: what a node knows of the job, and the votes that it may give because of that. It is the
// part of Member that outlives every connection: the search for a leader (leader_search.hpp) and
// the follower (follower.hpp) share it.
//
// It keeps rule E4 of docs/elections.md: a vote only after the hold, which lasts from when the
// leader was last *heard* for lease + margin. So every lease that any node was granted has ended
// before a successor can lead.
//
// All that it knows is of one instance of the job. It joins no other one, unless no round of its
// own was started, as far as it knows: then it joins under a new incarnation.

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/quorum.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// The newest leader that welcomed this node.
struct KnownLeader {
  NodeInfo node;  // host "": there was none
  // In force now: of that leader, or of this node since it led itself.
  Duration lease{};
  Duration margin{};
  Duration round_trip{};    // the longest of late, there and back
  TimePoint heard_at;       // while this node leads: when it last heard a quorum
  TimePoint hold_until;     // this node votes for no other before, unless the leader is dead
  TimePoint in_time_until;  // a proof of the leader's death counts as one in time (E6)
};

/// What a node keeps of its leadership when that ends.
struct PastLeadership {
  struct Node {
    NodeInfo info;
    TimePoint heard_at;
  };
  std::map<Incarnation, Node> nodes;      // that were with it
  std::vector<Incarnation> dead;          // of these, proved dead too late to be subtracted
  std::vector<KnownVoterSet> voter_sets;  // less those proved dead in time
  TimePoint granted_until;                // what it granted may be in use until then
  TimePoint over_for_all_at;  // by then no node takes a proof of its death for one in time (E6)
};

class Voter {
 public:
  /// `policy` outlives it.
  explicit Voter(const RendezvousPolicy& policy);

  // This node. ---------------------------------------------------------------------------------

  /// In its present incarnation.
  const NodeInfo& node() const { return node_; }
  const VoterState& state() const { return state_; }
  /// Its first message on a connection.
  Hello hello() const;
  /// Where the others reach it. REQUIRES: no other node was told yet.
  void listen_at(const Endpoint& at) { node_.listens = at; }
  /// Forgets the job, and takes another incarnation: it has no vote any more, and may join any.
  void rejoin_as_new();

  // The job. -----------------------------------------------------------------------------------

  const KnownLeader& leader() const { return leader_; }
  /// In the order in which they are tried, of the newest round; this node may be one.
  const std::vector<Successor>& successors() const { return successors_; }
  /// The hosts of the newest round that it acknowledged, "n0,n1".
  const std::string& hosts() const { return hosts_; }
  /// A round of its instance was started, with this node or without.
  bool knows_that_it_has_begun() const {
    return has_begun(state_) || (begun_.exists() && begun_ == state_.instance);
  }
  /// It was told of an instance that has begun, of this job.
  bool waits_for_another() const { return begun_.exists(); }
  /// Whether it may follow a leader of that instance.
  bool may_join(const Instance& instance, bool has_begun_there) const;
  /// Whether it should join that instance under a new incarnation. REQUIRES: it runs no workers.
  bool leaves_for(const Instance& instance, bool has_begun_there) const;
  /// A message says that an instance of this job has begun. Its leader may be lost by now, and
  /// another instance be bootstrapped in its place.
  void note_begun(const Redirect& redirect);
  /// No node of the instance that it waits for is heard any more.
  void forget_begun() { begun_ = {}; }
  /// A node that waits here knows this. A round may have been started while this node was away.
  void learn(const VoterState& other);

  // Under a leader. ----------------------------------------------------------------------------

  bool may_obey(const Welcome& welcome) const;
  /// It follows the leader that sent `welcome`, in reply to its hello of `hello_at`.
  void obey(const Welcome& welcome, TimePoint hello_at);
  /// A round was started without this node.
  void left_out(const Welcome& welcome);
  /// The leader was heard.
  void hear(TimePoint now);
  /// The reply to a heartbeat that was sent then has arrived.
  void answered(TimePoint sent_at, TimePoint now);
  /// The leader counts so many in the voter set of `round`.
  void resize(RoundId round, int voter_count);
  /// Yields whether it acknowledges that offer. REQUIRES: it runs no workers.
  bool acknowledge(const OfferRound& offer);
  /// The round that it acknowledged last was started.
  void started();
  void note_verdict(const Verdict& verdict) { state_.verdict = verdict; }

  // Its own leadership. ------------------------------------------------------------------------

  void lead(const Instance& instance, std::int64_t term);
  /// When it last heard a quorum.
  void heard_quorum(TimePoint at) { leader_.heard_at = at; }
  void depose(PastLeadership past, TimePoint now);
  /// The newest term that it has led itself; 0: none.
  std::int64_t led() const { return own_.led; }
  /// It led the newest term that it knows of, and may lead on.
  bool led_itself() const { return own_.led == state_.obeyed.term; }
  /// What it granted when it last led is over for all (E8).
  bool may_use_half(TimePoint now) const { return now >= own_.past.over_for_all_at; }

  // Deaths. ------------------------------------------------------------------------------------

  /// Nothing of the node of that leader runs any more. Yields whether it is this node's leader.
  bool goodbye(const Leadership& leadership, TimePoint now);
  /// Nothing of that node runs any more; this node may have led it (E9).
  void line_ended(Incarnation node);
  /// Nodes whose name or rank others have taken, while these wait here (E9).
  void set_replaced(std::set<Incarnation> nodes) { replaced_ = std::move(nodes); }
  bool has_replaced() const { return !replaced_.empty(); }
  bool is_leader_dead() const { return dead_.of == state_.obeyed; }
  /// The death of that leader, or of a later one, is proved.
  bool is_dead(const Leadership& leadership) const;
  /// No death of its newest leader, or of a later one, is proved.
  bool leader_may_live() const { return dead_.of.term < state_.obeyed.term; }
  /// It has no leader that may still lead.
  bool is_lost(TimePoint now) const;
  /// Nodes that led it, or that it led, and that it has not heard since: each with whether it has
  /// been silent for lease + margin. The newest leader has been since `leader_silent_at`.
  std::vector<std::pair<NodeInfo, bool>> missing(TimePoint now, TimePoint leader_silent_at) const;
  /// Whether the search for a leader may end with that node: it led this one, or was in a voter set
  /// when this one led.
  bool has_vote(Incarnation node) const;

  // Votes. -------------------------------------------------------------------------------------

  /// It may be elected: it belongs to the newest voter set that counts, as far as it knows.
  bool is_electable() const;
  /// REQUIRES: it runs no workers.
  bool may_vote(TimePoint now) const;
  /// It led, and its death may still be proved in time (E6): so it must not vote for another.
  bool votes_only_for_itself(TimePoint now) const;
  /// Since it led, it was in no round of another leader.
  bool was_leader() const { return own_.is_newest; }
  PreVote pre_vote(TimePoint now) const;
  /// Votes in that term. REQUIRES: newer than any it knows.
  Vote vote(std::int64_t term, TimePoint now);
  /// It voted for a candidate that has not come to lead in time.
  bool voted_in_vain(TimePoint now) const;
  /// From then on it votes as long as no leader comes.
  TimePoint loss_is_sure_at() const;

  TimePoint next_deadline(TimePoint last_event) const;

 private:
  struct OwnLeadership {
    std::int64_t led = 0;
    bool is_newest = false;  // since then it was in no round of another leader
    PastLeadership past;     // once it is over
    TimePoint may_vote_at;
  };

  void put_first(std::vector<Successor> successors);
  void keep_undecided(const OfferRound& offer);
  void forget_decided();
  void count_late_death(Incarnation node);
  void count_no_more_in(VoterSet& voters, int size);
  LeaderDeath death_of_leader(TimePoint now) const;
  VoterState state_to_report(TimePoint now) const;

  const RendezvousPolicy& policy_;
  NodeInfo node_;
  VoterState state_;
  RoundId newest_started_;  // as others have told
  Instance begun_;          // was heard of; it joins no other that has not begun
  std::vector<Successor> successors_;
  std::string hosts_;
  KnownLeader leader_;
  LeaderDeath dead_;  // the newest that is proved
  std::set<Incarnation> replaced_;
  OwnLeadership own_;
  TimePoint voted_at_;
};

}  // namespace ddprun
