#include "rendezvous/core/first_failure.hpp"

#include "base/suspicion.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// For the death that explains why a worker has lost a peer: of that peer, or of its node.
constexpr Duration kCauseWait = 1s;
constexpr Duration kLastLineWait = 500ms;  // it takes a node milliseconds to read, 0.3 s at most

}  // namespace

void FirstFailure::note(Failure failure, TimePoint now) {
  const FailureNews& culprit = failure.culprit;
  if (pending_ && pending_->failure.culprit.is_of_same_worker(culprit)) {
    if (culprit.last_line) pending_->failure.culprit.last_line = culprit.last_line;
    return;
  }
  if (pending_ && culprit.suspicion() >= pending_->failure.culprit.suspicion()) return;
  const bool may_be_noticed = gets_notices() && (pending_ || culprit.may_come_of_notice());
  const bool lost_peer = culprit.suspicion() == Suspicion::kLostPeer;
  Duration wait = may_be_noticed ? notice_delay_ : Duration();
  if (lost_peer) wait = std::max(wait, kCauseWait);
  const TimePoint until = std::min(pending_ ? pending_->until : kNever, now + wait);
  pending_ =
      Pending{.failure = std::move(failure), .until = until, .line_until = now + kLastLineWait};
}

std::optional<FirstFailure::Failure> FirstFailure::take_due(
    TimePoint now, bool all_ended, bool may_restart, const CrashLoop& crashes) {
  if (!pending_) return std::nullopt;
  const bool is_explained = all_ended && !gets_notices();
  const bool needs_line = needs_last_line(pending_->failure, may_restart, crashes);
  if (now < pending_->until && !is_explained) return std::nullopt;
  if (now < pending_->line_until && needs_line) return std::nullopt;
  return take();
}

std::optional<FirstFailure::Failure> FirstFailure::take() {
  auto taken = std::exchange(pending_, std::nullopt);
  if (!taken) return std::nullopt;
  return std::move(taken->failure);
}

TimePoint FirstFailure::deadline(bool may_restart, const CrashLoop& crashes) const {
  if (!pending_) return kNever;
  const bool needs_line = needs_last_line(pending_->failure, may_restart, crashes);
  return needs_line ? std::max(pending_->until, pending_->line_until) : pending_->until;
}

/// Whether this one failed at the place of the one before is not known yet, and has a say.
bool FirstFailure::needs_last_line(
    const Failure& failure, bool may_restart, const CrashLoop& crashes) {
  return may_restart && failure.culprit.can_be_retried &&
         crashes.needs_last_line(failure.culprit, failure.ran_for, failure.reached_store);
}

}  // namespace ddprun
