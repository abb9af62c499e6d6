#include "rendezvous/core/candidate.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace ddprun {

void Candidate::ask_for(const Vote& own) {
  DDPRUN_CHECK(own.term > term_);
  term_ = own.term;
  votes_.clear();
  votes_.emplace(self_, own);
}

void Candidate::voted(Incarnation node, const Vote& vote) {
  if (term_ == 0 || vote.term != term_) return;
  // What was promised or granted in another instance means nothing in this one.
  if (vote.voter_state.instance != votes_.at(self_).voter_state.instance) return;
  votes_.insert_or_assign(node, vote);
}

/// The newest leaders that are dead to somebody.
Candidate::Dead Candidate::newest_dead() const {
  Dead dead;
  for (const auto& [node, vote] : votes_) {
    const LeaderDeath& told = vote.dead;
    if (told.of.term > dead.newest.term) dead.newest = told.of;
    const bool is_newer = told.of.term > dead.in_time.term;
    if (told.in_time && is_newer) dead.in_time = told.of;
  }
  dead.is_replaced = std::ranges::any_of(votes_, [&dead](const auto& entry) {
    return entry.second.dead.of == dead.newest && entry.second.dead.is_replaced;
  });
  return dead;
}

/// A leader that was proved dead in time is subtracted (E6), one that was proved dead too late
/// counts as such (E9), unless whoever told the size had already obeyed a later one, which did that
/// itself.
Tally Candidate::view_of(const VoterSet& told, const Vote& vote, const Dead& dead) {
  const auto counts = [&](const Leadership& leadership) {
    return leadership.term != 0 && leadership.term >= told.round.term &&
           leadership.term >= vote.voter_state.obeyed.term;
  };
  // One that led later has voted for itself, and others with it: its death comes too late here.
  const bool subtracts = counts(dead.in_time) && dead.in_time.term == told.round.term;
  std::map<Incarnation, bool> late;  // whether it is replaced
  for (const LateDeath& death : told.late) {
    if (subtracts && death.node == dead.in_time.leader) continue;
    late.emplace(death.node, death.is_replaced);
  }
  if (!subtracts && counts(dead.newest)) late[dead.newest.leader] |= dead.is_replaced;
  Tally tally;
  tally.size = told.size - (subtracts ? 1 : 0);
  tally.lost_leader = subtracts;
  tally.late = static_cast<int>(late.size());
  tally.replaced =
      static_cast<int>(std::ranges::count_if(late, [](const auto& death) { return death.second; }));
  return tally;
}

Candidate::Count Candidate::count(RoundId round) const {
  Count found;
  const Dead dead = newest_dead();  // once: a thousand nodes may have promised
  for (const auto& [node, vote] : votes_) {
    for (const VoterSet* told : voter_sets_of(vote.voter_state)) {
      if (told->round != round || told->size == 0) continue;
      found.views.push_back(view_of(*told, vote, dead));
      if (told->is_member) found.members.insert(node);
      if (told->is_leader && setting_.may_use_half) found.leader = node;
      // Those that the leader had no time to tell.
      for (const RoundMember& member : told->members) {
        if (votes_.contains(member.node)) found.members.insert(member.node);
      }
    }
  }
  for (Tally& tally : found.views) {
    tally.given = static_cast<int>(found.members.size());
    tally.has_leader = found.leader != Incarnation{};
    tally.has_fence = setting_.fences.contains(round);
  }
  return found;
}

/// Whether that node has promised, and says that it never acknowledged that round, or that its
/// leader gave it up.
bool Candidate::has_not_acknowledged(Incarnation node, RoundId round) const {
  const auto found = votes_.find(node);
  if (found == votes_.end()) return false;
  const VoterState& voter_state = found->second.voter_state;
  return voter_state.committed.round < round &&
         std::ranges::none_of(voter_sets_of(voter_state), [round](const VoterSet* told) {
           return told->round == round;
         });
}

/// The newest that was started, and all that were offered later.
std::set<RoundId> Candidate::voter_sets() const {
  RoundId committed;
  std::set<RoundId> known;
  for (const auto& [node, vote] : votes_) {
    committed = std::max(committed, vote.voter_state.committed.round);
    for (const VoterSet* told : voter_sets_of(vote.voter_state)) {
      if (told->size != 0) known.insert(told->round);
    }
  }
  // Whoever led is the one to know what it offered and never started.
  for (const auto& [node, vote] : votes_) {
    const VoterState& voter_state = vote.voter_state;
    if (voter_state.obeyed.leader != node) continue;
    std::erase_if(known, [&voter_state](const RoundId& round) {
      return round.term == voter_state.obeyed.term && round > voter_state.committed.round;
    });
  }
  // Nor was one that a node has never acknowledged which was to run in it.
  for (const auto& [node, vote] : votes_) {
    for (const VoterSet* told : voter_sets_of(vote.voter_state)) {
      const bool was_missed = std::ranges::any_of(told->members, [&](const RoundMember& member) {
        return member.runs && has_not_acknowledged(member.node, told->round);
      });
      if (was_missed && told->round > committed) known.erase(told->round);
    }
  }
  known.erase(known.begin(), known.lower_bound(committed));
  known.insert(committed);
  return known;
}

std::optional<KnownVoterSet> Candidate::won(RoundId round, const std::set<RoundId>& fences) const {
  const Count counted = count(round);
  // Whoever leads belongs to it, or its death could not be subtracted from it.
  if (!counted.members.contains(self_)) return std::nullopt;
  std::optional<KnownVoterSet> best;
  for (const Tally& tally : counted.views) {
    const bool by_majority = wins_by_majority(setting_.rule, tally);
    const bool by_fence = fences.contains(round) && wins_with_fence(setting_.rule, tally);
    const bool by_half = by_fence || wins_by_tie(setting_.rule, tally);
    if (!by_majority && !(by_half && setting_.may_use_half)) continue;
    const int size = counted_size(setting_.rule, tally);
    if (best && best->size <= size) continue;
    best = KnownVoterSet{
        .round = round,
        .size = size,
        .members = counted.members,
        .half_suffices = !by_majority,
        .casting = by_fence ? Incarnation{} : counted.leader};
  }
  return best;
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
  result.met = newest->offered.size;
  count_unheard(result, *newest);
  return result;
}

/// Who is to be waited for before a round, and how long.
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
  const bool leader_is_dead = newest_dead().newest.term == offered.term;
  result.unheard = newest.offered_nodes - static_cast<int>(result.heard.size()) - late -
                   (leader_is_dead && newest.leader_ran ? 1 : 0);
  // Promises given when a lease had run out come later than the end of every lease; those given on
  // proof may come a whole lease before. The silent leader is not waited for; the others miss it
  // within a heartbeat of each other.
  const bool is_silent = !leader_is_dead && !on_proof && setting_.led != offered.term;
  if (is_silent && newest.leader_ran) --result.unheard;
  if (result.unheard > 0) {
    result.wait = on_proof ? setting_.lease + setting_.margin : setting_.regroup;
  }
}

}  // namespace ddprun
