#include "rendezvous/core/candidate.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <set>

namespace ddprun {

void Candidate::campaign(const Vote& own) {
  DDPRUN_CHECK(own.term > term_);
  term_ = own.term;
  votes_.clear();
  votes_.emplace(self_, own);
}

void Candidate::voted(Incarnation node, const Vote& vote) {
  if (term_ == 0 || vote.term != term_) return;
  // Votes and leases of another instance mean nothing in this one.
  if (vote.voter_state.instance != votes_.at(self_).voter_state.instance) return;
  votes_.insert_or_assign(node, vote);
}

/// Whether that node has voted, and reports that it never acknowledged that round, or that its
/// leader gave it up.
bool Candidate::has_not_acknowledged(Incarnation node, RoundId round) const {
  const auto found = votes_.find(node);
  if (found == votes_.end()) return false;
  const VoterState& voter_state = found->second.voter_state;
  return voter_state.committed.round < round &&
         std::ranges::none_of(voter_sets_of(voter_state), [round](const VoterSet* reported) {
           return reported->round == round;
         });
}

/// The newest that was started, and all that were offered later.
std::set<RoundId> Candidate::voter_sets() const {
  RoundId committed;
  std::set<RoundId> known;
  for (const auto& [node, vote] : votes_) {
    committed = std::max(committed, vote.voter_state.committed.round);
    for (const VoterSet* reported : voter_sets_of(vote.voter_state)) {
      if (reported->size != 0) known.insert(reported->round);
    }
  }
  // A node that led knows what it offered and never started.
  for (const auto& [node, vote] : votes_) {
    const VoterState& voter_state = vote.voter_state;
    if (voter_state.obeyed.leader != node) continue;
    std::erase_if(known, [&voter_state](const RoundId& round) {
      return round.term == voter_state.obeyed.term && round > voter_state.committed.round;
    });
  }
  // A round was not started either if a node that was to run in it never acknowledged it.
  for (const auto& [node, vote] : votes_) {
    for (const VoterSet* reported : voter_sets_of(vote.voter_state)) {
      const bool was_missed =
          std::ranges::any_of(reported->members, [&](const RoundMember& member) {
            return member.runs && has_not_acknowledged(member.node, reported->round);
          });
      if (was_missed && reported->round > committed) known.erase(reported->round);
    }
  }
  known.erase(known.begin(), known.lower_bound(committed));
  known.insert(committed);
  return known;
}

std::optional<KnownVoterSet> Candidate::won(RoundId round, const std::set<RoundId>& fences) const {
  const TieBreaker tie_breaker{
      .is_allowed = setting_.may_use_half,
      .has_fence = setting_.fences.contains(round),
      .gets_fence = fences.contains(round)};
  return elected_by(setting_.rule, votes_, round, tie_breaker, self_);
}

std::vector<RoundId> Candidate::fences_wanted() const {
  if (!setting_.rule.has_fence || !setting_.may_use_half) return {};
  std::set<RoundId> obtainable = setting_.fences;
  std::vector<RoundId> wanted;
  for (const RoundId& round : voter_sets()) {
    if (won(round, setting_.fences) || setting_.fences_of_others.contains(round)) continue;
    wanted.push_back(round);
    obtainable.insert(round);
  }
  return election_result_with(obtainable) ? wanted : std::vector<RoundId>();
}

std::optional<ElectionResult> Candidate::election_result_with(
    const std::set<RoundId>& fences) const {
  const VoterState* newest = nullptr;
  for (const auto& [node, vote] : votes_) {
    const VoterState& voter_state = vote.voter_state;
    if (newest == nullptr || voter_state.offered.round > newest->offered.round)
      newest = &voter_state;
  }
  if (newest == nullptr || newest->offered.round.number == 0) return std::nullopt;

  ElectionResult result;
  result.instance = newest->instance;
  result.term = term_;
  result.has_history = true;
  for (const RoundId& round : voter_sets()) {
    auto voters = won(round, fences);
    if (!voters) return std::nullopt;
    result.voter_sets.push_back(*std::move(voters));
  }
  const RoundId committed = result.voter_sets.front().round;
  result.last_round = std::max(newest->offered.round.number, committed.number);
  result.progress = newest->progress;
  result.newest = newest->offered.round;
  result.was_leader = setting_.led == result.newest.term;
  result.known_nodes = newest->offered.size;
  count_unheard(result, *newest);
  return result;
}

/// How many nodes are to be waited for before a round, and how long.
void Candidate::count_unheard(ElectionResult& result, const VoterState& newest) const {
  const RoundId offered = newest.offered.round;
  bool on_proof = false;
  int late = 0;
  for (const auto& [node, vote] : votes_) {
    const VoterState& voter_state = vote.voter_state;
    if (voter_state.verdict) result.verdict = voter_state.verdict;
    if (voter_state.offered.round == offered && voter_state.was_to_run) result.heard.insert(node);
    if (voter_state.offered.round == offered) {
      late = std::max(late, static_cast<int>(voter_state.offered.late.size()));
    }
    const std::int64_t dead = vote.dead.of.term;
    on_proof |= dead != 0 && dead >= voter_state.obeyed.term;
  }
  const bool leader_is_dead = dead_leaders(votes_).newest.term == offered.term;
  result.unheard = newest.offered_nodes - static_cast<int>(result.heard.size()) - late -
                   (leader_is_dead && newest.leader_ran ? 1 : 0);
  // A vote that was given when a lease had run out comes after the end of every lease; one that was
  // given on proof may come a whole lease before. The silent leader is not waited for. The others
  // miss it within a heartbeat of each other.
  const bool is_silent = !leader_is_dead && !on_proof && !result.was_leader;
  if (is_silent && newest.leader_ran) --result.unheard;
  if (result.unheard > 0) {
    result.wait = on_proof ? setting_.lease + setting_.margin : setting_.regroup;
  }
}

}  // namespace ddprun
