#pragma once

// A cluster in one thread: the real RendezvousNode of every node, and around it a random model of
// the shell, kernel, guard and workers. Every rule that can be seen from outside is checked as
// things happen.

#include "rendezvous/core/rendezvous_node.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/world.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// The exit status of a job whose workers have all saved; no other end has it.
inline constexpr int kSavedStatus = 76;

struct Setting {
  int nodes = 5;
  NodeRange range{3, 5};
  int max_restarts = 3;
  Duration lease = std::chrono::seconds(3);
  int unfit_percent = 0;                     // the share of node checks that fail
  Duration work = std::chrono::seconds(20);  // how long workers have to run undisturbed
  int slow_workers = 20;                     // percent that use their grace period when stopped
  int forgetful_workers = 15;                // percent that die of a preemption notice
  bool trusts_replacement = false;
  bool moves = false;  // a node starts again on another machine, under the old name
  bool has_fence = false;
  bool has_ranks = false;          // each node has a --node-rank
  bool wishes_for_rank_0 = false;  // c10d, and all nodes have --node-rank 0
  std::optional<int> twin_of;      // the last node has this node's rank, and replaces it
  Duration last_call = std::chrono::seconds(2);
  bool has_own_console = false;
  bool reads_last_lines = false;  // of a failed worker, before its node reports the stop
  int held_max = 8;               // lines whose ends the leader's workers hold too
};

/// A round of one instance of the job: rounds of two instances may have the same number.
struct RoundKey {
  Incarnation instance{};
  RoundId round;

  auto operator<=>(const RoundKey&) const = default;
};

class Cluster {
 public:
  Cluster(World& world, Setting setting);

  // Faults and other events of a node. Each does nothing if it does not apply.
  void start(int node);
  void kill_agent(int node);         // the guard ends the workers, then sends the goodbye
  void kill_agent_in_act(int node);  // the same, between two effects
  void kill_guard(int node);         // the agent ends everything
  void kill_both(int node);          // the kernel ends the workers; no goodbye is sent
  void kill_all(int node);           // these and the workers at the same instant
  void power_off(int node);          // its kernel forgets everything
  void freeze(int node, Duration for_how_long);  // the agent alone
  void fail_worker(int node);
  void cannot_start_worker(int node);   // for now
  void end_worker_by_notice(int node);  // of which the agent does not know yet
  void lose_peer(int node);             // one of its workers, which ends with 75
  void succeed(int node);               // its workers, early
  void tell_to_stop(int node);
  void give_notice(int node);  // the job is to end
  Network& network() { return network_; }

  /// The other node of its rank, if there is one.
  std::optional<int> twin(int node) const;
  /// The leader of the newest term, present or past.
  int leader() const { return leader_; }
  int nodes() const { return setting_.nodes; }
  bool is_alive(int node) const { return nodes_[at(node)].agent_up; }
  bool all_ended() const;
  bool any_finished() const { return !finished_.empty(); }

  /// From now on there are no faults. With a majority of the newest voter set alive and enough
  /// nodes, the job must continue (R4).
  void begin_quiet();

  /// No node is in between: each living node runs in the one round, is a spare, or has ended.
  void check_settled();

  /// The violated rules; empty: none.
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<std::string>& log() const { return log_; }
  bool keeps_log = false;
  bool tells_calls = false;        // in the log as well
  bool strikes_at_starts = false;  // of rounds, while there is trouble

  // What was seen, for statistics.
  int rounds_started() const { return static_cast<int>(places_.size()); }
  std::int64_t newest_term() const { return newest_term_; }
  const std::map<int, int>& finished() const { return finished_; }  // node → exit status
  /// The nodes that run now, by group rank; empty: none.
  std::vector<int> running() const;
  /// Of the workers that run now.
  RoundId round() const;
  /// Whether all nodes of that round run.
  bool is_whole() const;
  /// The rank assignments of a round, by node.
  const std::map<int, Place>& places(RoundId round) const;
  RendezvousNode& rendezvous(int node) { return *nodes_[at(node)].rendezvous; }

 private:
  enum class WorkersEnd : std::uint8_t { kStopped, kSaved, kSucceeded };
  struct Connection;
  struct End {
    std::shared_ptr<Connection> connection;
    bool is_caller = false;
  };
  struct Line {
    int member = 0;
    int member_life = 0;
    Incarnation incarnation{};
    int leader = 0;
    int leader_life = 0;
    Leadership leadership;
    bool is_open = false;
    bool workers_hold = false;   // those that run on the leader's node, if any
    bool has_sent_held = false;  // "H" was sent by the leader's side
    bool is_known_held = false;  // to the member: its end is a proof
    bool is_ended = false;       // as seen by the leader's kernel
    Pipe* to_leader = nullptr;
    Pipe* to_member = nullptr;
  };
  struct Node {
    int life = 0;  // of the agent; events planned for an earlier one are void
    bool agent_up = false;
    bool guard_up = false;
    bool frozen = false;
    std::deque<RendezvousNode::Event> missed;  // while frozen
    std::unique_ptr<RendezvousNode> rendezvous;
    double rate = 1;  // of its clock
    int boots = 0;
    std::set<RoundId> ran;      // in this life
    TimePoint up_since;         // the agent, without a freeze
    TimePoint listens_since;    // it was started, or knows that it was suspended until then
    TimePoint overslept_since;  // a time at which it was to read its clock
    bool follows = false;
    bool led = false;
    Incarnation began{};             // the newest instance that it was told has begun
    TimePoint began_until;           // it must belong to no other before
    TimePoint calls_since;           // at the endpoint, since it began to lead or to search
    TimePoint unled_since = kNever;  // it runs workers of a round that no node leads
    TimePoint tick_at = kNever;
    bool acting = false;
    int acts_left = -1;  // effects until it is killed; -1: it is not killed
    std::map<Link, End> ends;
    std::uint64_t last_link = 0;
    std::vector<std::shared_ptr<Line>> lines;  // that it opened
    std::vector<std::shared_ptr<Line>> kept;   // of those that it leads
    // Its workers.
    Incarnation instance{};
    RoundId round;
    bool runs = false;
    bool stopping = false;
    bool has_failed = false;
    std::optional<FailureNews> failure;  // the failure of has_failed, if it is an exit
    int run = 0;
    int world = 0;
    TimePoint lease_until;  // by the world's clock
  };
  struct Connection {
    int caller = 0;
    int callee = 0;
    int caller_life = 0;
    int callee_life = 0;
    Link caller_link{};
    Link callee_link{};
    bool caller_open = true;
    bool callee_open = false;
    Pipe* there = nullptr;
    Pipe* back = nullptr;
  };

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }
  static int node_of(const Endpoint& endpoint) { return std::stoi(endpoint.host.substr(1)); }
  TimePoint local(const Node& node, TimePoint at) const;
  TimePoint global(const Node& node, TimePoint at) const;

  void feed(int node, const RendezvousNode::Event& event);
  void arm(int node);
  void perform(int node, const effects::Call& call);
  void perform(int node, effects::Send& send);  // which it takes the message of
  void perform(int node, const effects::Close& close);
  void perform(int node, const effects::OpenLine& open);
  void perform(int node, const effects::ProbeLines& probe);
  void perform(int node, const effects::ClaimFence& claim);
  void perform(int node, const effects::SetLease& lease);
  void perform(int node, const effects::BeginStore& store);
  void perform(int node, const effects::StartWorkers& start);
  void perform(int node, const effects::StopWorkers& stop);
  void perform(int node, const effects::KillWorkers& kill);
  void perform(int node, const effects::Absence& absence);
  void perform(int node, const effects::ShowFailure& failure);
  void perform(int node, const effects::Note& note);
  void perform(int node, const effects::Finish& finish);

  void accept(const std::shared_ptr<Connection>& connection);
  void deliver(const std::shared_ptr<Connection>& connection, bool to_callee, Message& message);
  void close_end(const std::shared_ptr<Connection>& connection, bool at_callee);
  void agent_gone(int node);
  void keep(int leader, const RendezvousNode::LifelineOpened& opened);
  void send_goodbye(int node);
  void say_held(int node);
  void end_kept(int node);
  void end_of_leader(const std::shared_ptr<Line>& line);
  void end_of_member(const std::shared_ptr<Line>& line);
  bool holds_own_lines(int node, int life) const;
  bool holds_kept(const Line& line) const;
  Incarnation instance_of(int node) const;
  bool is_excused(Incarnation a, Incarnation b) const;
  bool has_called(int leader, int bootstrap_leader) const;
  void begin_instance(int bootstrap_leader);
  std::string check(int node) const;
  void check_places(const Coordinator& leads);
  bool is_forgotten(RoundId round, RoundId by) const;
  bool lacks_votes_of_an_offer() const;
  void check_led();
  void mind_quiet();
  bool could_be_heard(int bootstrap_leader, int survivor) const;
  void end_lines(int node);
  void end_workers(int node, Duration after, WorkersEnd how);
  void workers_ended(int node, int run, WorkersEnd how);
  void read_failure(int node, int run);
  void end_by_notice(int node);
  WorkerNews failure(int node, FailureNews first) const;
  void fail(int node, FailureNews first);
  void guard_minds_lease(int node, int life, int run);
  void trouble_offer(int leader);
  void cut_off_some(int leader);
  void check_leaders();
  void check_rounds();
  void violated(const std::string& rule, const std::string& what);
  void note(int node, const std::string& text);
  std::string name(Incarnation incarnation) const;

  World& world_;
  Setting setting_;
  Network network_;
  std::vector<Node> nodes_;
  std::set<std::uint64_t> incarnations_;
  std::map<std::pair<Incarnation, std::int64_t>, Incarnation> led_by_;  // by term
  int leader_ = 0;                                                      // that began last
  std::map<RoundKey, std::map<int, Place>> places_;
  std::map<RoundKey, std::set<int>> succeeded_;
  std::map<RoundKey, std::set<int>> saved_;  // or succeeded
  std::map<RoundKey, int> round_nodes_;
  std::map<Incarnation, RoundId> newest_;          // by instance
  std::map<Incarnation, std::set<RoundId>> paid_;  // rounds that followed a failure
  // Instances that were begun while no node of an earlier one could be heard: the later one ends.
  std::set<Incarnation> doubles_;
  std::map<std::pair<Incarnation, RoundId>, Incarnation> fences_;  // as the file system keeps them
  std::int64_t newest_term_ = 0;
  std::map<int, int> finished_;
  boost::container::flat_set<Incarnation> voters_;  // of the newest round
  bool has_to_continue_ = false;
  TimePoint quiet_since_;
  std::set<Incarnation> done_;       // instances of which an agent has ended after a success
  std::vector<Incarnation> acting_;  // scratch: the instances of the leaders that act now
  Effects effects_;                  // scratch
  std::vector<std::string> violations_;
  std::vector<std::string> log_;
};

}  // namespace ddprun::sim
