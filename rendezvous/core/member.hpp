#pragma once

// Member: one node's side of the rendezvous. It finds the leader, obeys it, keeps its lease, and
// votes for a successor once the leader is lost.
//
//              call taken         Welcome
//    searching ---------> waiting -------> following ---> (final verdict) ---> ended
//       ^  ^                |  ^              |
//       |  +--- patience ---+  +-- Redirect   | the connection ends, or nothing is heard for
//       +-------------------------------------+ lease + margin
//
// Searching, it calls its leader again for as long as that one may still lead (*not lost*). A
// leader is lost once nothing was heard of it for lease + margin, or its death is proved; then the
// successors are called in order, and when it is this node's own turn it gathers votes
// (candidate.hpp). The rules E3 and E4 of docs/rendezvous.md are kept here and nowhere else:
//
//   lease   how long workers may run: from when the newest heartbeat with a reply was *sent*
//   hold    how long it votes for nobody: from when the leader was last *heard*, plus the margin,
//           so the lease that anybody was granted has ended before a successor can lead
//
// All that it knows is of one instance of the job. It never follows a leader of another one, unless
// no round of its own was started, for all it knows: then it joins as somebody else.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

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
  TimePoint over_for_all_at;  // by then nobody takes a proof of its death for one in time (E6)
};

/// Where an endpoint is given by name, the name may lead to what has this job's old address now:
/// name services keep what they were told for 5 s where pods come and go (the cache of Kubernetes'
/// name service). Another job that is met there is not taken for the one that has the endpoint
/// before.
inline constexpr Duration kOldAddressWait = std::chrono::seconds(6);

/// The way from a node to the coordinator beside it, when it leads itself.
inline constexpr Link kSelfLink{0};

class Member {
 public:
  /// `policy` outlives it.
  explicit Member(const RendezvousPolicy& policy);

  // Events. Each appends what follows.
  void begin(TimePoint now, Effects& out);
  void connected(Link link, TimePoint now, Effects& out);
  void closed(Link link, const std::string& why, bool is_foreign, TimePoint now, Effects& out);
  void received(Link link, const Message& message, TimePoint now, Effects& out);
  void goodbye(const Leadership& leadership, TimePoint now, Effects& out);
  /// Nothing of that node runs any more; this node does not lead, and may have led it (E9).
  void line_ended(Incarnation node, TimePoint now, Effects& out);
  void workers(const WorkerNews& news, TimePoint now, Effects& out);
  /// Forwards the last output of a worker of this node to the leader.
  void failure_read(const FailureText& text, Effects& out);
  void signalled(int signal, bool whole_job, TimePoint now, Effects& out);
  void tick(TimePoint now, Effects& out);
  /// Somebody called here to say who leads: this job, or another one on the same endpoint, which
  /// refuses this node.
  void told_of_leader(const Redirect& redirect, TimePoint now, Effects& out);

  /// What the first check of this node came to, as in WorkerNews. REQUIRES: nobody was told yet.
  void set_unfit(std::string why) { unfit_ = std::move(why); }

  /// Where the others reach this node from now on. REQUIRES: nobody was told yet.
  void listen_at(const Endpoint& at) { node_.listens = at; }

  /// This node leads `term` of `instance` from now on.
  void lead(const Instance& instance, std::int64_t term, TimePoint now, Effects& out);
  /// It does not lead any more: its own lease of a majority has ended (E2).
  void depose(PastLeadership past, TimePoint now, Effects& out);
  /// While it leads: until when a majority keeps anybody else from leading, and, once that is over,
  /// when a majority was last heard.
  void set_own_lease(TimePoint until, TimePoint heard_at, TimePoint now, Effects& out);

  /// It led nobody yet, and there is another instance of the job: joins as if it had never
  /// bootstrapped anything.
  void abdicate(TimePoint now, Effects& out);
  /// A node of another instance, of which a round was started, can be reached there.
  void told_of_survivor(const Endpoint& at, TimePoint now, Effects& out);

  /// None of them is heard any more; the job may start from the beginning.
  void forget_survivors(TimePoint now, Effects& out);

  /// For whom others do well to wait: whoever this node waits for, or itself, if it may gather
  /// votes, now, or once its leader is lost and its turn comes. Nodes that miss a leader do so up
  /// to a heartbeat apart.
  std::optional<Wait> awaited() const;
  /// It may stop calling or waiting to gather votes at once: it owes none to the node it waits at.
  bool may_take_turn(TimePoint now) const;
  /// Its turn is now, whomever it called or waited for. REQUIRES: it follows nobody.
  void take_turn(TimePoint now, Effects& out);
  /// Its turn to gather votes has come, and it may vote for itself; ends by itself.
  bool is_candidate(TimePoint now) const;
  /// Its first words on a connection.
  Hello hello() const;
  PreVote pre_vote(TimePoint now) const {
    return {.dead = death_of_leader(now), .voter_state = voter_state_to_report(now)};
  }
  /// Nodes whose name or rank others have taken, as far as they wait here; E9.
  void set_replaced(std::set<Incarnation> nodes) { replaced_ = std::move(nodes); }
  bool has_replaced() const { return !replaced_.empty(); }
  /// Those that it once led, or that led it, and were not heard since, for whoever may replace
  /// them: who they are, and whether they have been silent for lease + margin.
  std::vector<std::pair<NodeInfo, bool>> missing(TimePoint now) const;
  /// Whether the wait for a leader may be for that node: it led this one, or was in a voter set
  /// when this one led.
  bool has_vote(Incarnation node) const;
  /// What it granted when it led last is over for all (E8).
  bool may_use_half(TimePoint now) const { return now >= past_.over_for_all_at; }
  /// How long until the others have missed a silent leader as well, each within a heartbeat.
  Duration regroup(TimePoint now) const;
  /// Votes for itself in this term, in its own turn. REQUIRES: newer than any it knows.
  Vote vote_for_itself(std::int64_t term, TimePoint now);

  /// What whoever calls here is told, if there is a leader.
  std::optional<Redirect> leader() const;
  /// In the order in which they are tried, of the newest round; this node may be one.
  const std::vector<Successor>& successors() const { return successors_; }
  /// The instance to which it belongs: a round was started, with this node or without.
  bool knows_that_it_has_begun() const {
    return has_begun(voter_state_) || (begun_.exists() && begun_ == voter_state_.instance);
  }
  /// At a node that takes part in that instance, which knows no leader either.
  bool waits_at_survivor() const;
  bool follows_another() const { return uplink_ == Uplink::kFollowing && link_ != kSelfLink; }
  bool leads() const { return uplink_ == Uplink::kFollowing && link_ == kSelfLink; }
  bool has_ended() const { return ended_; }
  /// It belongs to a round, and has no leader; it waits at no other node that may lead.
  bool searches_for_leader(TimePoint now) const;
  std::int64_t term() const { return voter_state_.term; }
  const Instance& instance() const { return voter_state_.instance; }
  /// The newest term that this node has led; 0: none.
  std::int64_t led() const { return led_; }
  const VoterState& voter_state() const { return voter_state_; }
  /// This node, in its present incarnation.
  const NodeInfo& node() const { return node_; }
  /// Whether it may be elected: it belongs to the newest voter set that counts for all it knows.
  bool is_electable() const;
  /// A node that waits here knows that: of a round, too, that was started while this one was away.
  void learn_of_voter_state(const VoterState& other);
  bool runs_workers() const;
  /// The hosts of the newest round that it acknowledged, "n0,n1".
  const std::string& hosts() const { return hosts_; }
  /// Without any leader, and so long that people are to be told.
  bool has_waited_long(TimePoint now) const;
  /// Why this node and those who wait with it cannot elect a leader. REQUIRES: !awaits_another().
  void lost_quorum(const QuorumLoss& loss, TimePoint now, Effects& out);
  /// It waits for another one to lead.
  bool awaits_another() const { return awaited_.has_value(); }
  /// As of the last time; nothing: not known.
  const QuorumLoss& loss() const { return loss_; }
  /// Nothing runs any more of the leader that it had.
  bool is_leader_dead() const { return dead_.of == voter_state_.obeyed; }
  /// How long it does without a leader, before it ends.
  Duration wait_for_leader() const;

  std::optional<TimePoint> next_deadline() const;

 private:
  enum class Uplink : std::uint8_t { kNone, kCalling, kWaiting, kFollowing, kOwnTurn };

  struct CandidateAddress {
    bool is_self = false;
    Endpoint to;
  };
  struct SentHeartbeat {
    std::int64_t number = 0;
    TimePoint at;
  };
  struct Second {
    std::optional<Link> link;  // none: refused
    TimePoint until;           // it is dropped then, and the next is tried
    std::optional<TimePoint> greeted_at;
  };

  void on(const Welcome& welcome, TimePoint now, Effects& out);
  void on(const HeartbeatReply& answer, TimePoint now, Effects& out);
  void on(const Redirect& redirect, TimePoint now, Effects& out);
  void on(const Wait& wait, TimePoint now, Effects& out);
  void on(const VoteRequest& ask, TimePoint now, Effects& out);
  void on(const OfferRound& offer, TimePoint now, Effects& out);
  void on(const StartRound& start, TimePoint now, Effects& out);
  void on(const StopRound& stop, TimePoint now, Effects& out);
  void on(const VerdictNews& told, TimePoint now, Effects& out);
  void on(const Refuse& refuse, TimePoint now, Effects& out);
  template <class Other>
  void on(const Other& /*not for members*/, TimePoint /*now*/, Effects& /*out*/) {}

  void advance(TimePoint now, Effects& out);
  void keep_lease(TimePoint now, Effects& out);
  void keep_following(TimePoint now, Effects& out);
  void hear(TimePoint now, Effects& out);
  TimePoint silent_at() const;
  void call_again(TimePoint now, Effects& out);
  void greet_on_second(TimePoint now, Effects& out);
  void switch_to_second(TimePoint now, Effects& out);
  void drop_second(Effects& out);
  Duration patience_with_second() const;
  std::string why_lease_is_over(TimePoint now) const;
  void failed_call(std::string why);
  bool is_at_refusal() const;
  void note_foreign(bool is_foreign, TimePoint now);
  bool is_endpoint_foreign(TimePoint now) const;
  void report_kill(Effects& out);
  void report_lost_leader(bool was_silent, TimePoint now, Effects& out);
  void search(TimePoint now, Effects& out);
  void next_candidate(TimePoint now, Effects& out);
  void begin_search(TimePoint now);
  void find_successor(TimePoint now);
  void hang_up(TimePoint now, Effects& out);
  void lose_uplink(TimePoint now, Effects& out);
  void heartbeat(TimePoint now, Effects& out);
  void send(Message message, Effects& out);
  void report_workers(Effects& out);
  void put_first(std::vector<Successor> successors);
  void keep_undecided(const OfferRound& offer);
  void forget_decided();
  void stop_workers(std::string why, Effects& out);
  void stand_by(TimePoint now);
  void report_spare(Effects& out);
  void report_waiting(TimePoint now, Effects& out);
  TimePoint reports_loss_at() const;
  void end_wait();
  void report_quorum_loss(TimePoint now, Effects& out);
  void try_vote(TimePoint now, Effects& out);
  void rejoin_as_new();
  void note_begun(const Redirect& redirect);
  void count_late_death(Incarnation node);
  void count_replaced(const KnownVoterSet& known, VoterSet& told) const;
  void count_no_more_in(VoterSet& voters);
  bool leaves_for(const Instance& instance, bool has_begun) const;
  bool may_join(const Instance& instance, bool has_begun) const;
  LeaderDeath death_of_leader(TimePoint now) const;
  VoterState voter_state_to_report(TimePoint now) const;
  void consider_end(TimePoint now, Effects& out);
  bool is_spare_wanted() const;
  std::string why_given_up(double waited_s) const;
  void finish_by(const Verdict& verdict, Effects& out);
  void finish(int exit_status, std::string why, Effects& out, bool is_own_word = true);
  bool has_call() const { return uplink_ == Uplink::kCalling || uplink_ == Uplink::kWaiting; }
  bool is_dead(const Leadership& leadership) const;
  bool is_lost(TimePoint now) const;
  /// Whether nobody has led since but this node, which may still do so.
  bool led_itself() const { return led_ == voter_state_.obeyed.term; }
  bool may_vote(TimePoint now) const;
  bool votes_only_for_itself(TimePoint now) const;
  void pause(TimePoint now);
  Duration patience_for(Duration least);
  Duration jittered(Duration duration);
  TimePoint forget_at() const { return sought_since_ + 2 * (lease_ + margin_); }

  const RendezvousPolicy& policy_;
  NodeInfo node_;
  std::minstd_rand dice_;

  // The connection to whoever leads or may lead.
  Uplink uplink_ = Uplink::kNone;
  Link link_{};
  std::uint64_t calls_ = 0;  // made so far; links of calls are odd
  std::vector<CandidateAddress> search_;
  std::size_t search_at_ = 0;  // the next of search_ to try
  TimePoint retry_at_;         // with kNone: no call before
  Duration pause_;             // after a search that found no leader; grows
  TimePoint patience_until_;
  bool calls_back_ = false;  // the leader, which is not lost
  int redirects_ = 0;        // in a row
  TimePoint redirected_since_;
  std::optional<Endpoint> redirected_to_;
  Endpoint called_;           // by the newest call
  std::string in_vain_;       // why the newest call to who may lead failed
  bool is_answered_ = false;  // a node of the job was called, and waits for a leader as well
  bool is_taken_ = false;     // a call got through, and nobody of any job answered
  TimePoint sought_since_;    // with no leader
  bool has_reported_waiting_ = false;
  bool has_reported_loss_ = false;
  QuorumLoss loss_;  // as it is known here, or was told by whom this node waits for
  std::optional<TimePoint> stranger_since_;  // that refused it, where its own job was to be
  std::optional<Endpoint> foreign_leader_;   // of another program, whose endpoint ours is
  std::optional<TimePoint> foreign_since_;   // another program has answered at the endpoint
  bool has_told_spare_ = false;              // since it was last to run
  std::optional<TimePoint> stands_by_at_;    // then people are told so
  int searches_ = 0;                         // since then
  std::vector<Endpoint> survivors_;          // of the instance that this node is to join
  // Before that it says nothing of its workers, so it gets no place: beside a node of the job, on
  // its machine, it comes after those that restart where none is left.
  TimePoint ready_at_;
  Instance begun_;  // that instance, once a node of it was heard; it joins none before it has begun

  // The leader.
  Endpoint leader_;
  NodeInfo leader_node_;
  std::string leader_host_;  // for people
  std::string hosts_;        // of the newest round it acknowledged, likewise
  Workload leader_workload_;
  Duration lease_;
  Duration margin_;
  TimePoint heard_at_;
  TimePoint hold_until_;
  LeaderDeath dead_;         // the newest that is proved
  TimePoint in_time_until_;  // a proof of the leader's death counts as one in time (E6)
  TimePoint hello_at_;       // sent on this link
  std::set<Incarnation> replaced_;
  PastLeadership past_;      // of its own newest leadership, while it does not lead
  std::int64_t led_ = 0;     // the newest term that it led itself; 0: none
  bool was_leader_ = false;  // led since it was last in a round of another; votes only for itself
  std::int64_t asked_ = 0;   // on this link, no vote yet
  bool has_voted_ = false;   // on this link
  std::optional<Wait> awaited_;     // whoever is on this link, and has said to wait for it
  int forwards_ = 0;                // to others that are waited for, in a row
  bool has_sent_pre_vote_ = false;  // on this link
  TimePoint voted_at_;
  TimePoint may_vote_at_;  // it has led itself

  // Heartbeats on this link.
  std::int64_t heartbeats_ = 0;
  std::int64_t heard_ = 0;
  std::deque<SentHeartbeat> sent_;  // those that may still get a reply
  Duration round_trip_{};           // the longest of late, to the newest leader and back
  TimePoint heartbeat_at_;

  // Another connection to the same leader, which is silent on the first.
  std::optional<Second> second_;
  int greeted_in_vain_ = 0;  // on such, since it was last heard

  // The round.
  VoterState voter_state_;
  RoundId newest_started_;  // as others have told
  std::vector<Successor> successors_;
  std::optional<OfferRound> offer_;  // acknowledged on this link, not started yet
  WorkerNews news_;
  std::string unfit_;  // as of the newest check
  TimePoint lease_until_;
  bool killed_ = false;      // for this round's lease
  std::string untold_kill_;  // why, until somebody else leads, who tells all of it
  bool took_part_ = false;   // its workers were started once

  // The end.
  std::optional<Leaving> leaving_;
  std::optional<Verdict> final_;
  std::optional<Refuse> refused_;  // for good
  bool ended_ = false;
  TimePoint seen_;  // the present, as of the last event
};

}  // namespace ddprun
