#pragma once

// Coordinator: who takes part in a round, and how the job goes on, decided in one place for as long
// as this node leads. Every node, its own included, is a link; what arrives there comes in, what is
// to be sent goes out.
//
//                 enough nodes                all acknowledged
//   gathering ----------------> offered -------------------------> running
//      ^  ^                        |                                  |
//      |  +--- one of them lost ---+        a worker failed, a node is lost, leaves or joins
//      |                                                              |
//      +---- none of its workers runs any more ---- stopping <--------+
//
// A node of the round is done with (*ended*) when it said so, its death is proved, or its lease has
// run out: never by a closed connection alone (R2). Once there is a verdict no round follows.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/crash_loop.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/first_failure.hpp"
#include "rendezvous/core/leader_lease.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/lost_nodes.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/node_failures.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/restart_budget.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun {

struct Gathering;    // gathering_text.hpp
struct Participant;  // rank_plan.hpp

class Coordinator {
 public:
  enum class Phase : std::uint8_t { kGathering, kOffered, kRunning, kStopping };

  /// A node that this one has met since it leads.
  struct Node {
    NodeInfo info;
    std::optional<Link> link;  // none: its connection ended, it may come back
    std::uint64_t joined = 0;
    TimePoint joined_at;
    TimePoint heard_at;  // anything of it
    WorkerNews news;
    bool has_told = false;              // `news`, on this link
    bool may_run = true;                // workers, for all that is known (R2)
    std::optional<TimePoint> line_due;  // its lifeline is waited for until then
    bool is_leaving = false;
    int leaving_by = 0;  // the signal
    bool has_heard_verdict = false;
    int group_rank = -1;       // its place in the newest round it was in
    bool may_replace = false;  // it was in none, and nobody is known whom it was started for
    std::string told_unfit;    // what people were told of it
  };

  /// The present or the last round.
  struct Round {
    RoundId id;
    std::vector<Incarnation> to_run;  // by group rank
    std::set<Incarnation> runs;       // the same, to find one
    std::set<Incarnation> acknowledged;
    std::set<Incarnation> ended;      // of those to run: none of their workers runs
    std::set<Incarnation> succeeded;  // and all exited 0
    std::set<Incarnation> saved;      // and all, told by a notice, exited by themselves
    std::map<Incarnation, Link> started_on;
    KnownVoterSet voters;
    TimePoint started_at;
    int world = 0;
    bool reached_store = false;  // one of its workers did
    StopRound order;             // that ended it
  };

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
  /// A worker of the round has spoken to this node's store.
  void store_reached() { round_.reached_store = true; }
  void tick(TimePoint now, Effects& out);
  /// A node knows another instance of this job, of which it has seen no round start. Its bootstrap
  /// leader may start one yet: no round of ours, until that node joins or surely has given it up.
  void hold_for(const NodeInfo& node, TimePoint now);
  /// It has given that instance up.
  void hold_no_more_for(const NodeInfo& node);
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
  Incarnation self() const { return self_.incarnation; }
  const Instance& instance() const { return instance_; }
  std::int64_t term() const { return term_; }
  /// A round of this instance was started, now or by an earlier leader.
  bool has_begun() const { return has_history_; }
  Phase phase() const { return phase_; }
  /// Between two rounds, a while before the next one may be offered.
  bool is_pausing(TimePoint now) const {
    return phase_ == Phase::kGathering && has_history_ && now < not_before_;
  }
  const std::map<Incarnation, Node>& nodes() const { return nodes_; }
  /// Nodes that it lost or never met, and that may live.
  const LostNodes& lost_nodes() const { return lost_; }
  /// The present or the last one; none before the first offer.
  const Round* round() const { return round_.id.number == 0 ? nullptr : &round_; }
  const Progress& progress() const { return progress_; }
  const RestartBudget& budget() const { return budget_; }
  const std::optional<Verdict>& verdict() const { return verdict_; }
  /// Why that node, one of nodes(), had better run no workers; empty: it may.
  std::string why_unfit(const Node& node) const;

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

  std::optional<std::string> silent_host(TimePoint now) const;
  void note_newcomer(const NodeInfo& node, Effects& out) const;
  bool keep_lead(TimePoint now, Effects& out);
  void advance(TimePoint now, Effects& out);
  void act(TimePoint now, Effects& out);
  void expire(TimePoint now, Effects& out);
  void await_lines(TimePoint now, Effects& out);
  void answer(const Node& node, Effects& out);
  void welcome(const Node& node, Effects& out) const;
  void remove(Incarnation node, const std::string& why, TimePoint now, Effects& out);
  const Node* holder_of_rank(const NodeInfo& node) const;
  bool postpone(Link link, const Hello& hello, TimePoint now, Effects& out);
  void refuse_postponed(const Node& alive, Effects& out);
  void admit_postponed(TimePoint now, Effects& out);
  void cancel_offer_to(Incarnation node);
  void take_back_offer();

  void gather(TimePoint now, Effects& out);
  void wait_for_min(int ready, TimePoint now, Effects& out);
  Duration gather_timeout() const;
  bool too_few_may_come(TimePoint now) const;
  TimePoint reports_last_call_at() const;
  void report_last_call(int ready, TimePoint now, Effects& out);
  Gathering gathering(int ready) const;
  void report_waiting(int ready, TimePoint now, Effects& out);
  std::vector<Participant> participants() const;
  void offer(TimePoint now, Effects& out);
  bool may_start(TimePoint now) const;
  void look_for_silent(Node& newcomer, const Hello& hello);
  bool is_started_again(const Node& silent) const;
  void count_replacements();
  void start(TimePoint now, Effects& out);
  bool may_restart() const;
  void consider_failure(TimePoint now, Effects& out);
  void fail(const FirstFailure::Failure& first, TimePoint now, Effects& out);
  void break_round(StopRound order, Effects& out);
  void go_on_without_blame(std::string why, Effects& out);
  void consider_success(TimePoint now, Effects& out);
  void round_ended(TimePoint now);
  void consider_newcomers(TimePoint now, Effects& out);

  void end_by(int signal, const std::string& host, Effects& out);
  void end_at_once(const std::string& host, Effects& out);
  void shorten_grace(Verdict& ending, const std::string& why, Effects& out);
  bool workers_get_notices() const { return policy_.notice_delay > Duration(); }
  Verdict verdict_after_notice(const Verdict& ending) const;
  void decide(Verdict verdict, StopRound order, Effects& out);
  void spread_verdict(TimePoint now, Effects& out);
  bool awaits_text(TimePoint now) const;
  bool may_be_asked(TimePoint now) const;
  void report_searching(TimePoint now, Effects& out);
  void dismiss_leavers(Effects& out);

  bool is_idle(const Node& node) const;
  bool is_ready(const Node& node) const;
  bool is_fit(const Node& node) const;
  const Node* began_at(const FailureNews& culprit) const;
  void blame(const FailureNews& culprit, TimePoint now);
  void note_unfit(Effects& out);
  bool is_to_run(Incarnation node) const;
  bool is_full_without(Incarnation node) const;
  std::vector<Successor> successors() const;
  std::string missing_hosts() const;
  Node* find(Link link);
  void send(const Node& node, Message message, Effects& out) const;

  const RendezvousPolicy& policy_;
  NodeInfo self_;
  Instance instance_;
  std::int64_t term_ = 0;
  LeaderLease lease_;
  std::int64_t last_round_ = 0;
  Progress progress_;
  RestartBudget budget_;
  CrashLoop crashes_;
  FirstFailure first_failure_;
  NodeFailures failures_;
  bool has_history_ = false;
  int met_ = 0;  // nodes that have ever come, as far as is known here

  Phase phase_ = Phase::kGathering;
  std::map<Incarnation, Node> nodes_;
  std::unordered_map<Link, Node*> links_;  // of nodes_
  std::uint64_t joins_ = 0;
  Round round_;                           // offered, running, stopping, or the last one
  std::vector<std::string> round_hosts_;  // of it, or of the last one of an earlier leader

  LostNodes lost_;
  bool has_reported_searching_ = false;
  struct Postponed {
    Hello hello;
    TimePoint since;
  };
  std::map<Link, Postponed> postponed_;  // each wants the node rank of another that may live yet
  std::map<std::string, TimePoint> held_for_;  // by place, nodes of another instance; see hold_for
  TimePoint seen_;                             // the present, as of the last event
  TimePoint expire_at_;                        // no node is overdue before
  std::set<Incarnation> lines_;                // lifelines that are held
  TimePoint line_due_ = kNever;                // none is overdue before

  TimePoint gather_since_;
  bool has_reported_waiting_ = false;  // since then
  TimePoint not_before_;               // no offer
  TimePoint due_ = kNever;             // it meant to look at its clock, of a job not begun
  RoundId regrouped_;                  // the newest that an earlier leader offered
  std::set<Incarnation> heard_;        // of those that were to run it
  int unheard_ = 0;                    // the others
  TimePoint regroup_until_;            // they are waited for
  std::optional<TimePoint> last_call_until_;
  bool has_reported_last_call_ = false;
  std::optional<TimePoint> newcomer_at_;
  bool has_leavers_ = false;
  std::optional<TimePoint> succeeded_at_;  // all of the round, of which the same may be said

  // By a notice the job is to end, once its workers have saved: with this, unless all have.
  std::optional<Verdict> ending_;
  std::optional<Verdict> verdict_;
  bool is_final_ = false;
  TimePoint final_at_;
  // A worker of that node ended the job: the leader waits for its last output, until text_until_
  // once no worker is left.
  std::optional<Incarnation> text_of_;
  TimePoint text_until_ = kNever;
};

}  // namespace ddprun
