#include "rendezvous/core/candidate.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace ddprun {
namespace {

using Promises = std::map<Incarnation, Promise>;

/// The newest generation whose leader is proved dead to somebody.
std::int64_t newest_dead(const Promises& promises) {
  std::int64_t dead = 0;
  for (const auto& [node, promise] : promises) {
    dead = std::max(dead, promise.dead);
  }
  return dead;
}

/// As its members tell: the smallest size counts, since nodes that were proved dead were told of at
/// different times. A leader that is proved dead is subtracted (E6), unless whoever told the size
/// had already obeyed a later one, which did that itself.
KnownElectorate electorate_of(RoundId round, const Promises& promises) {
  const std::int64_t dead = newest_dead(promises);
  KnownElectorate found{.round = round, .size = std::numeric_limits<int>::max(), .members = {}};
  for (const auto& [node, promise] : promises) {
    const Standing& standing = promise.standing;
    for (const Electorate* told : electorates_of(standing)) {
      if (told->round != round || told->size == 0) continue;
      const bool subtracts = dead >= round.generation && dead >= standing.obeyed;
      found.size = std::min(found.size, told->size - (subtracts ? 1 : 0));
      if (told->is_member) found.members.insert(node);
    }
  }
  return found;
}

/// Never of an electorate of none: a founder alone may have started a round that nobody here knows.
bool has_majority(const KnownElectorate& electorate) {
  return electorate.size > 0 && static_cast<int>(electorate.members.size()) > electorate.size / 2;
}

}  // namespace

void Candidate::ask_for(const Promise& own) {
  DDPRUN_CHECK(own.generation > generation_);
  generation_ = own.generation;
  promises_.clear();
  promises_.emplace(self_, own);
}

void Candidate::promised(Incarnation node, const Promise& promise) {
  if (generation_ == 0 || promise.generation != generation_) return;
  promises_.insert_or_assign(node, promise);
}

std::optional<Mandate> Candidate::mandate() const {
  RoundId committed;
  std::set<RoundId> known;
  const Standing* newest = nullptr;
  for (const auto& [node, promise] : promises_) {
    const Standing& standing = promise.standing;
    committed = std::max(committed, standing.committed.round);
    for (const Electorate* told : electorates_of(standing)) {
      if (told->size != 0) known.insert(told->round);
    }
    if (newest == nullptr || standing.offered.round > newest->offered.round) newest = &standing;
  }
  if (newest == nullptr || newest->offered.round.number == 0) return std::nullopt;
  const RoundId offered = newest->offered.round;

  Mandate mandate;
  mandate.generation = generation_;
  mandate.has_history = true;
  mandate.electorates.push_back(electorate_of(committed, promises_));
  for (auto later = known.upper_bound(committed); later != known.end(); ++later) {
    mandate.electorates.push_back(electorate_of(*later, promises_));
  }
  for (const KnownElectorate& electorate : mandate.electorates) {
    // Whoever leads belongs to it, or its death could not be subtracted from it.
    const bool belongs = electorate.members.contains(self_);
    if (!belongs || !has_majority(electorate)) return std::nullopt;
  }
  mandate.last_round = std::max(offered.number, committed.number);
  mandate.progress = newest->progress;

  mandate.newest = offered;
  bool on_proof = false;
  for (const auto& [node, promise] : promises_) {
    const Standing& standing = promise.standing;
    if (standing.verdict) mandate.verdict = standing.verdict;
    if (standing.offered.round == offered && standing.was_to_run) mandate.heard.insert(node);
    on_proof |= promise.dead != 0 && promise.dead >= standing.obeyed;
  }
  const bool leader_is_dead = newest_dead(promises_) == offered.generation;
  mandate.unheard =
      newest->offered_nodes - static_cast<int>(mandate.heard.size()) - (leader_is_dead ? 1 : 0);
  // Promises given when a lease had run out come later than the end of every lease; those given on
  // proof may come a whole lease before. The silent leader is not waited for; the others miss it
  // within a beat of each other.
  const bool is_silent = !leader_is_dead && !on_proof && setting_.led != offered.generation;
  if (is_silent) --mandate.unheard;
  if (mandate.unheard > 0) {
    mandate.wait = on_proof ? setting_.lease + setting_.margin : setting_.regroup;
  }
  return mandate;
}

}  // namespace ddprun
