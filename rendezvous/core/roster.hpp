#pragma once

// Roster: which nodes are here. It knows their connections and lifelines, drops those that were
// silent for too long, and remembers those that it lost.

#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/leader_context.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/lost_nodes.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/node_failures.hpp"

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class Roster {
 public:
  /// What a round can expect of a node. The first line that applies is its state:
  ///
  ///   it reported that it was told to stop              kLeaving
  ///   its connection ended                              kDisconnected
  ///   its lifeline is awaited                           kAwaitsLifeline
  ///   it has not reported its workers since it called   kAwaitsReport
  ///   its workers run, as far as it reported            kBusy
  ///   otherwise                                         kReady
  enum class State : std::uint8_t {
    kLeaving,
    kDisconnected,
    kAwaitsLifeline,
    kAwaitsReport,
    kBusy,
    kReady,
  };

  /// A node that has joined since this one leads. More than twelve members: so much is known of it.
  struct Node {
    NodeInfo info;
    std::optional<Link> link;               // none: its connection ended; it may call again
    std::optional<Link> reported_on;        // the connection that `news` came on
    WorkerNews news;                        // the newest that it reported
    std::vector<StepReport> steps;          // of its workers, by its newest heartbeat
    bool may_run = true;                    // workers, for all that is known (R2)
    std::optional<TimePoint> lifeline_due;  // its lifeline is awaited until then
    std::optional<int> leaving_by;          // the signal that told it to stop
    std::uint64_t joined = 0;               // the order in which nodes came
    TimePoint joined_at;
    TimePoint heard_at;          // anything of it
    int group_rank = -1;         // its rank in the newest round that it was in
    std::string reported_unfit;  // what people were told about its fitness

    State state() const;
    bool is_ready() const { return state() == State::kReady; }
    bool is_leaving() const { return leaving_by.has_value(); }
    bool has_reported() const { return link && reported_on == link; }
    /// None of its workers runs, by its own report on this connection.
    bool is_idle() const { return has_reported() && !is_under_way(news.state); }
  };

  struct Joined {
    Node& node;
    bool is_new = false;
    std::optional<Link> replaced;  // its earlier connection, to be closed
  };

  /// `context` outlives it.
  explicit Roster(const LeaderContext& context) : context_(context) {}

  /// A node calls, for the first time or again.
  Joined join(Link link, const Hello& hello, TimePoint now);
  /// The connection of that node ended. The node may live, and call again.
  void disconnect(Node& node);
  /// That node is lost. Yields its connection, to be closed. REQUIRES: it is here.
  std::optional<Link> remove(Incarnation node);

  void report_newcomer(const NodeInfo& node, Effects& out) const;

  /// The lifeline of that node is held on both sides. Yields whether the node is here.
  bool lifeline_opened(Incarnation node);
  /// Or never was: a node that joins from now on is expected to open one.
  void lifeline_gone(Incarnation node) { lifelines_.erase(node); }
  std::size_t lifelines() const { return lifelines_.size(); }
  /// Gives up on lifelines that are overdue.
  void give_up_lifelines(TimePoint now, Effects& out);

  /// The nodes of which nothing was heard for lease + margin.
  std::vector<Incarnation> overdue(TimePoint now);
  /// That node, which is overdue, is lost, and may live. `is_expected`: its absence is no news,
  /// since the job ends.
  void fell_silent(const Node& node, bool is_expected, TimePoint now, Effects& out);

  /// Null: it is not here.
  Node* find(Link link);
  Node* find(Incarnation node);
  const Node* find(Incarnation node) const;
  const std::map<Incarnation, Node>& nodes() const { return nodes_; }
  std::map<Incarnation, Node>& nodes() { return nodes_; }
  /// Whether any node may run workers, for all that is known (R2).
  bool any_may_run() const;
  const LostNodes& lost() const { return lost_; }
  LostNodes& lost() { return lost_; }

  /// A failure is charged to the node on which it began.
  void record_failure(const FailureNews& culprit, TimePoint now);
  /// The node on which that worker ran; null: it is not here.
  const Node* where_began(const FailureNews& culprit) const;
  /// Why that node should not run workers; empty: it may.
  std::string why_unfit(const Node& node, TimePoint now) const;
  bool is_fit(const Node& node, TimePoint now) const;

  /// The first one after `after`; kNever: there is none.
  TimePoint next_deadline(TimePoint after) const;

 private:
  bool is_started_again(const Node& silent) const;

  const LeaderContext& context_;
  std::map<Incarnation, Node> nodes_;
  boost::unordered_flat_map<Link, Node*> links_;  // of nodes_
  std::uint64_t joins_ = 0;
  LostNodes lost_;
  NodeFailures failures_;
  std::set<Incarnation> lifelines_;   // that are held
  TimePoint lifelines_due_ = kNever;  // none is overdue before
  TimePoint nodes_due_ = kNever;      // no node is overdue before
  mutable Incarnation may_run_{};     // what any_may_run() found last
};

/// To `node`, if it is connected.
inline void send(const Roster::Node& node, Message message, Effects& out) {
  if (!node.link) return;
  out.emplace_back(effects::Send{.to = *node.link, .message = std::move(message)});
}

}  // namespace ddprun
