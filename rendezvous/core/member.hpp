#pragma once

// Member: one node's side of the rendezvous, made of
//
//   Voter             what it knows of the job, and its votes                  (voter.hpp)
//   LeaderSearch      how it finds a leader while it has none                  (leader_search.hpp)
//   Follower          what it does under a leader                              (follower.hpp)
//   WorkerLease       what its workers do, and how long they may               (worker_lease.hpp)
//   SecondConnection  to a leader that is silent on the first (second_connection.hpp)
//
//              call taken         Welcome
//    searching ---------> waiting -------> following ---> (final verdict) ---> ended
//       ^  ^                |  ^              |
//       |  +--- timeout ----+  +-- Redirect   | the connection ends, or nothing is heard for
//       +-------------------------------------+ lease + margin
//
// Member gives each event to the part that it concerns, and decides when the node ends.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/follower.hpp"
#include "rendezvous/core/leader_search.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/second_connection.hpp"
#include "rendezvous/core/voter.hpp"
#include "rendezvous/core/worker_lease.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class Member {
 public:
  /// `policy` outlives it.
  explicit Member(const RendezvousPolicy& policy);
  ~Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Events. Each appends what follows. ---------------------------------------------------------

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
  void tick(TimePoint now, Effects& out) { advance(now, out); }
  /// Another node called here to report the leader: of this job, or of another one on the same
  /// endpoint, which refuses this node.
  void note_leader(const Redirect& redirect, TimePoint now, Effects& out);
  /// A node of another instance, of which a round was started, can be reached there.
  void note_survivor(const Endpoint& at, TimePoint now, Effects& out);
  /// None of them is heard any more; the job may start from the beginning.
  void forget_survivors(TimePoint now, Effects& out);
  /// Why this node and the nodes that wait with it cannot elect a leader. REQUIRES:
  /// !search().awaits_another().
  void lost_quorum(const QuorumLoss& loss, TimePoint now, Effects& out);

  /// The result of the first node check, as in WorkerNews. REQUIRES: no other node was told yet.
  void set_unfit(std::string why) { workers_.set_unfit(std::move(why)); }
  /// Where the others reach this node from now on. REQUIRES: no other node was told yet.
  void listen_at(const Endpoint& at) { voter_.listen_at(at); }
  /// Nodes whose name or rank others have taken, while these wait here (E9).
  void set_replaced(std::set<Incarnation> nodes) { voter_.set_replaced(std::move(nodes)); }
  /// A node that waits here knows this.
  void learn_of_voter_state(const VoterState& other) { voter_.learn(other); }

  // Its own leadership. ------------------------------------------------------------------------

  /// This node leads `term` of `instance` from now on.
  void lead(const Instance& instance, std::int64_t term, TimePoint now, Effects& out);
  /// While it leads: until when a majority keeps any other node from leading, and, once that is
  /// over, when a majority was last heard.
  void set_own_lease(TimePoint until, TimePoint heard_at, TimePoint now, Effects& out);
  /// It does not lead any more: its own lease of a majority has ended (E2).
  void depose(PastLeadership past, TimePoint now, Effects& out);
  /// It led no other node yet, and there is another instance of the job: joins that as if it had
  /// never bootstrapped one.
  void abdicate(TimePoint now, Effects& out);

  // Its turn to gather votes. ------------------------------------------------------------------

  /// For which node others do well to wait: for the one that this node waits for, or for itself, if
  /// it may gather votes now, or once its leader is lost and its turn comes. Nodes miss a leader up
  /// to a heartbeat apart.
  std::optional<Wait> awaited() const { return search_.awaited(seen_); }
  /// Its turn is now, whichever node it called or waited for. REQUIRES: it has no leader.
  void take_turn(TimePoint now, Effects& out) { search_.take_turn(now, out); }
  /// Votes for itself in this term, in its own turn. REQUIRES: newer than any it knows.
  Vote vote_for_itself(std::int64_t term, TimePoint now) {
    return search_.vote_for_itself(term, now);
  }
  /// How long until the others have missed a silent leader as well, each within a heartbeat.
  Duration regroup(TimePoint now) const;

  // Questions. ---------------------------------------------------------------------------------

  /// What this node knows of the job.
  const Voter& voter() const { return voter_; }
  /// How it looks for a leader, while it has none.
  const LeaderSearch& search() const { return search_; }
  const VoterState& voter_state() const { return voter_.state(); }
  std::int64_t term() const { return voter_.state().term; }
  const Instance& instance() const { return voter_.state().instance; }
  bool knows_that_it_has_begun() const { return voter_.knows_that_it_has_begun(); }
  /// Nothing runs any more of the leader that it had.
  bool is_leader_dead() const { return voter_.is_leader_dead(); }
  /// This node, in its present incarnation.
  const NodeInfo& node() const { return voter_.node(); }
  /// What a caller is told, if there is a leader.
  std::optional<Redirect> leader() const;
  bool leads() const { return follower_.leads(); }
  bool follows_another() const { return follower_.follows_another(); }
  bool has_ended() const { return ended_; }
  /// Nodes that it once led, or that led it, and that were not heard since: for a node that may
  /// replace them. Each with whether it has been silent for lease + margin.
  std::vector<std::pair<NodeInfo, bool>> missing(TimePoint now) const;
  /// It belongs to a round, and has no leader; it waits at no other node that may lead.
  bool searches_for_leader(TimePoint now) const;
  /// Why no leader can be elected, as of the last time; nothing: not known.
  const QuorumLoss& loss() const { return search_.report().loss(); }

  std::optional<TimePoint> next_deadline() const;

 private:
  void on(const Welcome& welcome, TimePoint now, Effects& out);
  void on(const VerdictNews& news, TimePoint now, Effects& out);
  void on(const Refuse& refuse, TimePoint now, Effects& out);
  /// Of the other messages some are for one of its parts, and some are not for members.
  template <class Body>
  void on(const Body& body, TimePoint now, Effects& out) {
    if constexpr (requires { follower_.on(body, now, out); }) {
      if (follower_.follows()) follower_.on(body, now, out);
    } else if constexpr (requires { search_.on(body, now, out); }) {
      if (search_.is_waiting()) search_.on(body, now, out);
    }
  }

  Link link() const { return follower_.follows() ? follower_.link() : search_.link(); }
  void hear(TimePoint now, Effects& out);
  void hang_up(TimePoint now, Effects& out);
  void lose_leader(TimePoint now, Effects& out);
  void switch_to_second(TimePoint now, Effects& out);
  void report_lost_leader(bool was_silent, TimePoint now, Effects& out);
  void advance(TimePoint now, Effects& out);
  void keep_following(TimePoint now, Effects& out);
  void consider_end(TimePoint now, Effects& out);
  void give_up(Effects& out);
  void finish_by(const Verdict& verdict, Effects& out);
  void finish(int exit_status, std::string why, Effects& out, bool is_own_word = true);

  const RendezvousPolicy& policy_;
  Voter voter_;
  WorkerLease workers_;
  LeaderSearch search_;
  Follower follower_;
  SecondConnection second_;
  std::optional<Verdict> final_;
  std::optional<Refuse> refused_;  // for good
  bool ended_ = false;
  TimePoint seen_;  // the present, as of the last event
};

}  // namespace ddprun
