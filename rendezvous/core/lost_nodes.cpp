#include "rendezvous/core/lost_nodes.hpp"

#include <algorithm>

namespace ddprun {

void LostNodes::newcomer(const Hello& hello) {
  const auto known = voter_sets_of(hello.voter_state);
  for (const VoterSet* const each : known) {
    if (each->is_member && met_voter(each->round)) break;
  }
  if (std::ranges::any_of(known, &VoterSet::is_member)) return;
  // The node that searched from that host is gone.
  const std::string& host = hello.node.host;
  std::erase_if(searching_, [&host](const auto& entry) { return entry.second.host == host; });
  newcomers_.insert(hello.node.incarnation);
  match_newcomers();
}

/// A newcomer was a voter of the round `of`. Yields whether it is one of the unseen.
bool LostNodes::met_voter(RoundId of) {
  if (of != unseen_of_) return false;
  if (unseen_ > 0) --unseen_;
  return true;
}

/// This leader does not know the names of the unseen, so it takes each newcomer for the replacement
/// of one of them: the end of the job does not wait for a node that is back.
void LostNodes::match_newcomers() {
  while (unseen_ > 0 && !newcomers_.empty()) {
    newcomers_.erase(newcomers_.begin());
    --unseen_;
  }
}

void LostNodes::died(Incarnation node) {
  searching_.erase(node);
  if (silent_.contains(node)) dead_.push_back(node);
}

void LostNodes::round_starts(const KnownVoterSet& last, TimePoint unseen_until) {
  silent_.clear();
  dead_.clear();
  if (unseen_in(last) <= 0) return;
  unseen_ = unseen_in(last);
  unseen_of_ = last.round;
  unseen_until_ = unseen_until;
  match_newcomers();
}

TimePoint LostNodes::searching_until() const {
  TimePoint until = unseen_ > 0 ? unseen_until_ : TimePoint();
  for (const auto& [incarnation, node] : searching_) {
    until = std::max(until, node.until);
  }
  return until;
}

}  // namespace ddprun
