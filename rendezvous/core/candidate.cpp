#include "rendezvous/core/candidate.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace ddprun {

void Candidate::ask_for(const Promise& own) {
  DDPRUN_CHECK(own.generation > generation_);
  generation_ = own.generation;
  promises_.clear();
  promises_.emplace(self_, own);
}

void Candidate::promised(Incarnation node, const Promise& promise) {
  if (generation_ == 0 || promise.generation != generation_) return;
  // What was promised or granted in another instance means nothing in this one.
  if (promise.standing.instance != promises_.at(self_).standing.instance) return;
  promises_.insert_or_assign(node, promise);
}

/// The newest leaders that are dead to somebody.
Candidate::Dead Candidate::newest_dead() const {
  Dead dead;
  for (const auto& [node, promise] : promises_) {
    const LeaderDeath& told = promise.dead;
    if (told.of.generation > dead.newest.generation) dead.newest = told.of;
    const bool is_newer = told.of.generation > dead.in_time.generation;
    if (told.in_time && is_newer) dead.in_time = told.of;
  }
  dead.is_replaced = std::ranges::any_of(promises_, [&dead](const auto& entry) {
    return entry.second.dead.of == dead.newest && entry.second.dead.is_replaced;
  });
  return dead;
}

/// A leader that was proved dead in time is subtracted (E6), one that was proved dead too late
/// counts as such (E9), unless whoever told the size had already obeyed a later one, which did that
/// itself.
Votes Candidate::view_of(const Electorate& told, const Promise& promise, const Dead& dead) {
  const auto counts = [&](const Leadership& leadership) {
    return leadership.generation != 0 && leadership.generation >= told.round.generation &&
           leadership.generation >= promise.standing.obeyed.generation;
  };
  // One that led later has voted for itself, and others with it: its death comes too late here.
  const bool subtracts = counts(dead.in_time) && dead.in_time.generation == told.round.generation;
  std::map<Incarnation, bool> late;  // whether it is replaced
  for (const LateDeath& death : told.late) {
    if (subtracts && death.node == dead.in_time.leader) continue;
    late.emplace(death.node, death.is_replaced);
  }
  if (!subtracts && counts(dead.newest)) late[dead.newest.leader] |= dead.is_replaced;
  Votes votes;
  votes.size = told.size - (subtracts ? 1 : 0);
  votes.lost_leader = subtracts;
  votes.late = static_cast<int>(late.size());
  votes.replaced =
      static_cast<int>(std::ranges::count_if(late, [](const auto& death) { return death.second; }));
  return votes;
}

Candidate::Count Candidate::count(RoundId round) const {
  Count found;
  const Dead dead = newest_dead();  // once: a thousand nodes may have promised
  for (const auto& [node, promise] : promises_) {
    for (const Electorate* told : electorates_of(promise.standing)) {
      if (told->round != round || told->size == 0) continue;
      found.views.push_back(view_of(*told, promise, dead));
      if (told->is_member) found.members.insert(node);
      if (told->is_leader && setting_.may_use_half) found.leader = node;
      // Those that the leader had no time to tell.
      for (const RoundMember& member : told->members) {
        if (promises_.contains(member.node)) found.members.insert(member.node);
      }
    }
  }
  for (Votes& votes : found.views) {
    votes.given = static_cast<int>(found.members.size());
    votes.has_leader = found.leader != Incarnation{};
    votes.has_fence = setting_.fences.contains(round);
  }
  return found;
}

/// Whether that node has promised, and says that it never acknowledged that round, or that its
/// leader gave it up.
bool Candidate::has_not_acknowledged(Incarnation node, RoundId round) const {
  const auto found = promises_.find(node);
  if (found == promises_.end()) return false;
  const Standing& standing = found->second.standing;
  return standing.committed.round < round &&
         std::ranges::none_of(electorates_of(standing), [round](const Electorate* told) {
           return told->round == round;
         });
}

/// The newest that was started, and all that were offered later.
std::set<RoundId> Candidate::electorates() const {
  RoundId committed;
  std::set<RoundId> known;
  for (const auto& [node, promise] : promises_) {
    committed = std::max(committed, promise.standing.committed.round);
    for (const Electorate* told : electorates_of(promise.standing)) {
      if (told->size != 0) known.insert(told->round);
    }
  }
  // Whoever led is the one to know what it offered and never started.
  for (const auto& [node, promise] : promises_) {
    const Standing& standing = promise.standing;
    if (standing.obeyed.leader != node) continue;
    std::erase_if(known, [&standing](const RoundId& round) {
      return round.generation == standing.obeyed.generation && round > standing.committed.round;
    });
  }
  // Nor was one that a node has never acknowledged which was to run in it.
  for (const auto& [node, promise] : promises_) {
    for (const Electorate* told : electorates_of(promise.standing)) {
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

std::optional<KnownElectorate> Candidate::won(
    RoundId round, const std::set<RoundId>& fences) const {
  const Count counted = count(round);
  // Whoever leads belongs to it, or its death could not be subtracted from it.
  if (!counted.members.contains(self_)) return std::nullopt;
  std::optional<KnownElectorate> best;
  for (const Votes& votes : counted.views) {
    const bool by_majority = wins_by_majority(setting_.rule, votes);
    const bool by_fence = fences.contains(round) && wins_with_fence(setting_.rule, votes);
    const bool by_half = by_fence || wins_by_tie(setting_.rule, votes);
    if (!by_majority && !(by_half && setting_.may_use_half)) continue;
    const int size = counted_size(setting_.rule, votes);
    if (best && best->size <= size) continue;
    best = KnownElectorate{
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
  for (const RoundId& round : electorates()) {
    if (won(round, setting_.fences) || setting_.fences_of_others.contains(round)) continue;
    wanted.push_back(round);
    obtainable.insert(round);
  }
  return mandate_with(obtainable) ? wanted : std::vector<RoundId>();
}

std::optional<Mandate> Candidate::mandate_with(const std::set<RoundId>& fences) const {
  const Standing* newest = nullptr;
  for (const auto& [node, promise] : promises_) {
    const Standing& standing = promise.standing;
    if (newest == nullptr || standing.offered.round > newest->offered.round) newest = &standing;
  }
  if (newest == nullptr || newest->offered.round.number == 0) return std::nullopt;

  Mandate mandate;
  mandate.instance = newest->instance;
  mandate.generation = generation_;
  mandate.has_history = true;
  for (const RoundId& round : electorates()) {
    auto electorate = won(round, fences);
    if (!electorate) return std::nullopt;
    mandate.electorates.push_back(*std::move(electorate));
  }
  const RoundId committed = mandate.electorates.front().round;
  mandate.last_round = std::max(newest->offered.round.number, committed.number);
  mandate.progress = newest->progress;
  mandate.newest = newest->offered.round;
  mandate.met = newest->offered.size;
  look_for_the_unheard(mandate, *newest);
  return mandate;
}

/// Who is to be waited for before a round, and how long.
void Candidate::look_for_the_unheard(Mandate& mandate, const Standing& newest) const {
  const RoundId offered = newest.offered.round;
  bool on_proof = false;
  int late = 0;
  for (const auto& [node, promise] : promises_) {
    const Standing& standing = promise.standing;
    if (standing.verdict) mandate.verdict = standing.verdict;
    if (standing.offered.round == offered && standing.was_to_run) mandate.heard.insert(node);
    if (standing.offered.round == offered) {
      late = std::max(late, static_cast<int>(standing.offered.late.size()));
    }
    const std::int64_t dead = promise.dead.of.generation;
    on_proof |= dead != 0 && dead >= standing.obeyed.generation;
  }
  const bool leader_is_dead = newest_dead().newest.generation == offered.generation;
  mandate.unheard = newest.offered_nodes - static_cast<int>(mandate.heard.size()) - late -
                    (leader_is_dead && newest.leader_ran ? 1 : 0);
  // Promises given when a lease had run out come later than the end of every lease; those given on
  // proof may come a whole lease before. The silent leader is not waited for; the others miss it
  // within a beat of each other.
  const bool is_silent = !leader_is_dead && !on_proof && setting_.led != offered.generation;
  if (is_silent && newest.leader_ran) --mandate.unheard;
  if (mandate.unheard > 0) {
    mandate.wait = on_proof ? setting_.lease + setting_.margin : setting_.regroup;
  }
}

}  // namespace ddprun
