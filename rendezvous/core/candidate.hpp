#pragma once

// Candidate: gathers votes for one node, once its leader is lost (E4 to E10).
//
// A vote carries the newest round that the voter acknowledged and the newest that it knows was
// started. The candidate needs a majority of the voter set of the newest round started, and of
// those of all rounds that were offered later: these may have been started unseen. Each voter tells
// whether it belongs to these, so no list of nodes has to travel. Votes of another instance of the
// job do not count.

#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/quorum.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun {

/// What a leader begins with: all that the votes tell, so it has more than twelve members.
struct ElectionResult {
  Instance instance;
  std::int64_t term = 0;
  std::vector<KnownVoterSet> voter_sets;  // it needs a majority of each; the newest started first
  std::int64_t last_round = 0;
  Progress progress;
  bool has_history = false;  // some round was offered before
  std::optional<Verdict> verdict;
  RoundId newest;                  // that was offered
  bool was_leader = false;         // of that round: it lost its majority, and leads again
  std::set<Incarnation> heard;     // of those that were to run it
  int unheard = 0;                 // the others that are waited for
  std::vector<std::string> hosts;  // of the newest round, as far as this node knows them
  int known_nodes = 0;             // nodes of that voter set, also those that died since
  Duration wait{};  // for these, before a round: they may still run workers, or join it
};

class Candidate {
 public:
  struct Setting {
    QuorumRule rule;
    bool may_use_half = true;  // what it granted when it last led is over for all (E8)
    std::set<RoundId> fences;  // that it holds
    std::set<RoundId> fences_of_others;
    Duration lease{};
    Duration margin{};
    Duration regroup{};    // until the others miss a silent leader as well
    std::int64_t led = 0;  // the newest term that it has led itself; 0: none
  };

  Candidate(Incarnation self, Setting setting) : self_(self), setting_(std::move(setting)) {}

  /// The term of its vote requests; 0: none yet.
  std::int64_t term() const { return term_; }

  /// Requests votes in a newer term. REQUIRES: own.term > term().
  void campaign(const Vote& own);

  void update(Setting setting) { setting_ = std::move(setting); }

  /// A vote came from `node`. One for another term than the present is ignored.
  void voted(Incarnation node, const Vote& vote);

  /// What it may lead with; none: too few votes.
  std::optional<ElectionResult> election_result() const {
    return election_result_with(setting_.fences);
  }

  /// The voter sets whose fences, if it held them as well, would make up for too few votes;
  /// none: they would not, or are not needed.
  std::vector<RoundId> fences_wanted() const;

 private:
  bool has_not_acknowledged(Incarnation node, RoundId round) const;
  std::set<RoundId> voter_sets() const;
  std::optional<KnownVoterSet> won(RoundId round, const std::set<RoundId>& fences) const;
  std::optional<ElectionResult> election_result_with(const std::set<RoundId>& fences) const;
  void count_unheard(ElectionResult& result, const VoterState& newest) const;

  Incarnation self_{};
  Setting setting_;
  std::int64_t term_ = 0;
  Votes votes_;  // its own included
};

}  // namespace ddprun
