#pragma once

// LostNodes: what a leader knows of the nodes that it has lost or never seen, and that may live.
// They matter twice: the workers of one that fell silent may still run, so its voter set counts it;
// and it searches for a leader, which therefore stays for a while after the job is done.

#include "base/time.hpp"
#include "rendezvous/core/candidate.hpp"
#include "rendezvous/core/member.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

class LostNodes {
 public:
  /// Nothing was heard of `node` for lease + margin. It may live.
  void fell_silent(const NodeInfo& node, TimePoint heard_at) {
    silent_.insert_or_assign(
        node.incarnation, PastLeadership::Node{.info = node, .heard_at = heard_at});
  }
  /// And if it does, it searches for a leader until then.
  void searches(const NodeInfo& node, TimePoint until) {
    searching_.insert_or_assign(node.incarnation, SearchingNode{.host = node.host, .until = until});
  }

  /// `node` joins, for the first time or again.
  void joined(Incarnation node) {
    silent_.erase(node);
    searching_.erase(node);
  }
  /// The caller joins for the first time: it may be one of the unseen, or the replacement of a node
  /// that fell silent.
  void newcomer(const Hello& hello);
  /// `node`, which had joined, is not here any more.
  void removed(Incarnation node) { newcomers_.erase(node); }
  /// `node` is proved dead: nothing of it runs any more.
  void died(Incarnation node);

  /// A round starts, which replaces the voter set `last`. Those of it that have not come to this
  /// leader search for one until `unseen_until`.
  void round_starts(const KnownVoterSet& last, TimePoint unseen_until);
  /// Those that fell silent since the newest round began, and may live.
  const std::map<Incarnation, PastLeadership::Node>& silent() const { return silent_; }
  /// Of these, those that were proved dead since.
  const std::vector<Incarnation>& dead() const { return dead_; }
  /// Voters of the last round that this leader has never seen.
  int unseen() const { return unseen_; }
  /// How many fell silent under this leader and may search for a leader now.
  std::size_t searching() const { return searching_.size(); }
  /// Until when one of all these may search for a leader; TimePoint(): none does.
  TimePoint searching_until() const;

 private:
  struct SearchingNode {
    std::string host;
    TimePoint until;
  };

  bool met_voter(RoundId of);
  void match_newcomers();

  std::map<Incarnation, PastLeadership::Node> silent_;
  std::vector<Incarnation> dead_;
  std::map<Incarnation, SearchingNode> searching_;
  std::set<Incarnation> newcomers_;  // of no voter set, and replacements of no known node
  int unseen_ = 0;
  RoundId unseen_of_;
  TimePoint unseen_until_;
};

}  // namespace ddprun
