#pragma once

// LeaderSearch: how a node without a leader finds one. It calls the candidate addresses in order,
// one at a time, and waits at the first node that may lead:
//
//            next address          call taken             Welcome
//     idle ---------------> calling -----------> waiting ---------> found
//      ^ |                     |                    |
//      | +--> own turn         |                    |
//      +----------+------------+--------------------+  timeout, redirect, or the call ends
//
// While the leader is not lost, its address is the only one: the connection may have been cut. Once
// it is lost the successors are called in order. When the own turn comes, this node stays idle and
// gathers votes (candidate.hpp). A node that waits gives its vote to the one it waits at.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/search_report.hpp"
#include "rendezvous/core/voter.hpp"
#include "rendezvous/core/worker_lease.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ddprun {

class LeaderSearch {
 public:
  /// What it takes outlives it.
  LeaderSearch(const RendezvousPolicy& policy, Voter& voter, WorkerLease& workers);

  // The calls. ---------------------------------------------------------------------------------

  void begin(TimePoint now) { times_.since = now; }
  /// The leader is lost, or the connection to it.
  void begin_again(TimePoint now);
  /// The leader has just been lost: calls the successors at once.
  void find_successor(TimePoint now);
  /// This node follows or leads.
  void found();
  /// The node ends.
  void end(Effects& out);
  /// Continues with the next address once that is due, or the present one takes too long.
  void advance(TimePoint now, Effects& out);

  bool has_call() const { return state_ == State::kCalling || state_ == State::kWaiting; }
  bool is_waiting() const { return state_ == State::kWaiting; }
  /// Of the newest call, which may have ended, or found the leader.
  Link link() const { return call_.link; }
  TimePoint greeted_at() const { return call_.greeted_at; }
  /// Of another call to come.
  Link new_link() { return Link{2 * ++call_.made - 1}; }
  bool is_calling(Link link) const { return state_ == State::kCalling && link == call_.link; }
  /// The call was taken. REQUIRES: is_calling().
  void connected(TimePoint now, Effects& out);
  /// The newest call has ended.
  void closed(const std::string& why, bool is_foreign, TimePoint now);
  void hang_up(Effects& out);
  /// Waits for the leader's answer on a connection that another part has made.
  void wait_on(Link link, TimePoint greeted_at, TimePoint now);

  // What arrives where it waits. ---------------------------------------------------------------

  /// Any message arrived: ddprun runs there.
  void heard(TimePoint now);
  void on(const Redirect& redirect, TimePoint now, Effects& out);
  void on(const Wait& wait, TimePoint now, Effects& out);
  void on(const VoteRequest& request, TimePoint now, Effects& out);
  /// Yields the refusal if it holds for good.
  std::optional<Refuse> refused(const Refuse& refuse, TimePoint now, Effects& out);

  // What others call here to report. REQUIRES: this node has no leader. --------------------------

  void note_leader(const Redirect& redirect, TimePoint now, Effects& out);
  /// A node of another instance, of which a round was started, can be reached there. Yields whether
  /// that is news.
  bool note_survivor(const Endpoint& at, TimePoint now);
  void forget_survivors();
  /// Survivors are waited for, at one of which this node waits.
  bool waits_at_survivor() const;

  // Votes. -------------------------------------------------------------------------------------

  /// Votes for the node it waits at, if that requested its vote.
  void try_vote(TimePoint now, Effects& out);
  /// For which node others do well to wait: for the one that this node waits for, or for itself.
  std::optional<Wait> awaited(TimePoint now) const;
  /// It waits for another node to lead.
  bool awaits_another() const { return talk_.awaited.has_value(); }
  /// It may stop calling or waiting to gather votes at once: it owes none to the node it waits at.
  bool may_take_turn(TimePoint now) const;
  void take_turn(TimePoint now, Effects& out);
  /// Its turn has come, and it may vote for itself; ends by itself.
  bool is_candidate(TimePoint now) const;
  Vote vote_for_itself(std::int64_t term, TimePoint now);

  /// Takes another incarnation, which has no vote and no workers.
  void rejoin_as_new();

  /// Since when there is no leader.
  TimePoint since() const { return times_.since; }
  const SearchReport& report() const { return report_; }
  SearchReport& report() { return report_; }
  /// Without any leader for so long that people are told.
  bool has_waited_long(TimePoint now) const {
    return state_ != State::kFound && report_.has_waited_long(times_.since, now);
  }
  bool is_over(TimePoint now) const { return now >= times_.since + report_.timeout(); }
  std::string why_given_up() const { return report_.why_given_up(survivors_); }
  /// The newest call went to a node that may report that it cannot listen at the endpoint.
  bool is_at_refusal() const;

  TimePoint next_deadline(TimePoint last_event) const;

 private:
  enum class State : std::uint8_t { kIdle, kCalling, kWaiting, kOwnTurn, kFound };

  struct Call {
    std::uint64_t made = 0;  // so far; links of calls are odd
    Link link{};
    Endpoint to;
    TimePoint greeted_at;
    bool is_to_leader = false;  // which was not lost
  };
  /// Where it searches for a leader; none: it is its own turn to gather votes.
  using CandidateAddress = std::optional<Endpoint>;

  struct Talk {                       // with the node it waits at
    std::optional<Wait> awaited;      // the node there, which has said to wait for it
    std::int64_t requested_term = 0;  // of a vote request that has no vote yet; 0: none
    bool has_voted = false;
    bool has_sent_pre_vote = false;
  };
  struct Order {
    std::vector<CandidateAddress> addresses;
    std::size_t next = 0;
    int searches = 0;
  };
  struct Redirects {
    int count = 0;  // in a row
    TimePoint since;
    std::optional<Endpoint> to;
    int forwards = 0;  // to nodes that are waited for, in a row
  };
  struct Times {
    TimePoint since;     // no leader
    TimePoint retry_at;  // no call before, with kIdle
    Duration pause{};    // after a search that found no leader; grows
    TimePoint patience_until;
  };

  std::vector<CandidateAddress> candidate_addresses(TimePoint now) const;
  void next_candidate(TimePoint now, Effects& out);
  void end_call();
  void forget_job(TimePoint now, Effects& out);
  void failed(std::string why);
  void pause(TimePoint now);
  Duration patience_for(Duration least);
  Duration jittered(Duration duration);
  bool may_vote(TimePoint now) const { return !workers_.are_running() && voter_.may_vote(now); }
  TimePoint forget_at() const {
    return times_.since + 2 * (voter_.leader().lease + voter_.leader().margin);
  }

  const RendezvousPolicy& policy_;
  Voter& voter_;
  WorkerLease& workers_;
  SearchReport report_;
  std::minstd_rand dice_;
  State state_ = State::kIdle;
  Call call_;
  Talk talk_;
  Order order_;
  Redirects redirects_;
  Times times_;
  std::vector<Endpoint> survivors_;  // of the instance that this node is to join
};

}  // namespace ddprun
