#include "rendezvous/core/leader_lease.hpp"

#include "base/check.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstddef>
#include <iterator>

namespace ddprun {
namespace {

constexpr std::size_t kAnswersKept = 32;
constexpr std::size_t kSmall = 16;  // nodes, up to which every heartbeat counts at once
constexpr int kRefreshesPerLease = 64;

}  // namespace

LeaderLease::LeaderLease(
    Incarnation self, Timing timing, std::vector<KnownVoterSet> voter_sets, TimePoint now)
    : self_(self),
      timing_(timing),
      voter_sets_(std::move(voter_sets)),
      confirm_by_(now + timing.lease + timing.margin),
      until_(now),
      grants_until_(now) {}

void LeaderLease::join(Incarnation node, const VoterState& voter_state, TimePoint now) {
  Confirmed& confirmed = confirmed_[node];
  confirmed.heartbeat = 0;
  confirmed.answers.clear();
  confirmed.answers.emplace_back(0, now);
  spoke_at_ = now;
  for (KnownVoterSet& voters : voter_sets_) {
    for (const VoterSet* reported : voter_sets_of(voter_state)) {
      if (reported->is_member && reported->round == voters.round && reported->size != 0) {
        voters.members.insert(node);
      }
    }
  }
}

void LeaderLease::heartbeat(Incarnation node, const Heartbeat& heartbeat, TimePoint now) {
  Confirmed& confirmed = confirmed_.at(node);
  confirmed.heartbeat = std::max(confirmed.heartbeat, heartbeat.number);
  confirmed.heartbeat_at = now;
  spoke_at_ = now;
  confirmed.answers.emplace_back(heartbeat.number, now);
  if (confirmed.answers.size() > kAnswersKept) confirmed.answers.erase(confirmed.answers.begin());
  note_heard(confirmed, heartbeat.heard, now);
}

void LeaderLease::confirm(Incarnation node, const Confirm& confirm, TimePoint now) {
  note_heard(confirmed_.at(node), confirm.heard, now);
}

void LeaderLease::note_heard(Confirmed& confirmed, std::int64_t heard, TimePoint now) {
  auto& answers = confirmed.answers;
  const auto is_heard = [heard](const auto& answer) { return answer.first <= heard; };
  const auto rest = std::ranges::find_if_not(answers, is_heard);
  if (rest != answers.begin()) {
    confirmed.sent = std::max(confirmed.sent.value_or(TimePoint()), std::prev(rest)->second);
    answers.erase(answers.begin(), rest);
  }
  const bool is_large = confirmed_.size() > kSmall;
  const bool is_fresh = now < refreshed_at_ + timing_.lease / kRefreshesPerLease;
  if (!is_large || !is_fresh) refresh(now);
}

HeartbeatReply LeaderLease::answer(Incarnation node) {
  const Confirmed& confirmed = confirmed_.at(node);
  TimePoint until = offered_ ? grantable(*offered_, offered_held_, node) : kNever;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    until = std::min(until, grantable(voter_sets_[i], held_[i], node));
  }
  const bool is_limited = until < confirmed.heartbeat_at + timing_.lease;
  const Duration rest = std::max(Duration::zero(), until - confirmed.heartbeat_at);
  const Duration grant = is_limited ? rest : timing_.lease;
  granted_until_ = std::max(granted_until_, confirmed.heartbeat_at + grant);
  return {
      .number = confirmed.heartbeat,
      .grant = grant,
      .round = voter_sets_.front().round,
      .voter_count = voter_sets_.front().size,
      .next = next_heartbeat(node, confirmed.heartbeat_at)};
}

/// A node that gets the reply votes for no other for a lease from then on. So it counts, as if for
/// ever, among those that hold what it is granted.
TimePoint LeaderLease::grantable(
    const KnownVoterSet& voters, const QuorumHold& held, Incarnation node) const {
  if (!voters.members.contains(node)) return held.until;
  const auto& sent = confirmed_.at(node).sent;
  const bool holds_longer = sent && *sent + timing_.lease > held.until;
  return holds_longer ? held.until : held.with_one_more;
}

/// When the slot of `node` is next. It keeps its slot, and so, after the first time, its
/// interval.
Duration LeaderLease::next_heartbeat(Incarnation node, TimePoint arrived) const {
  const Duration interval = heartbeat_interval(timing_.lease, confirmed_.size());
  const auto slot = static_cast<std::int64_t>(static_cast<std::uint64_t>(node) % kHeartbeatSlots);
  const Duration begin = interval * slot / kHeartbeatSlots;
  const Duration since = (arrived.time_since_epoch() + interval - begin) % interval;
  const Duration rest = interval - since;
  // It came a little early, or its slot has only just been.
  return rest < interval / 4 ? rest + interval : rest;
}

void LeaderLease::died(Incarnation node, TimePoint now) {
  const auto found = confirmed_.find(node);
  if (found == confirmed_.end()) return;
  const auto& sent = found->second.sent;
  const bool held = sent && now < *sent + timing_.lease + timing_.margin;
  if (held) {
    for (KnownVoterSet& voters : voter_sets_)
      subtract(voters, node);
  }
  confirmed_.erase(found);
  refresh(now);
}

void LeaderLease::offer(KnownVoterSet voters, TimePoint now) {
  offered_ = std::move(voters);
  refresh(now);
}

void LeaderLease::start(TimePoint now) {
  auto begun = std::exchange(offered_, std::nullopt);
  DDPRUN_CHECK(begun.has_value());
  voter_sets_.clear();
  voter_sets_.push_back(*std::move(begun));
  refresh(now);
}

bool LeaderLease::renew(TimePoint now) {
  if (now >= until_) refresh(now);
  if (now < until_) return true;
  // Until a majority has answered for the first time, nothing was granted or started.
  if (is_confirmed_ || now >= confirm_by_) is_over_ = true;
  return false;
}

QuorumHold LeaderLease::held_of(const KnownVoterSet& voters) const {
  std::vector<TimePoint> held;
  held.reserve(voters.members.size());
  std::optional<TimePoint> tie_breaker;
  // Both are in the same order, and many times a second this is asked for thousands.
  auto member = voters.members.begin();
  for (const auto& [node, confirmed] : confirmed_) {
    member = std::find_if_not(
        member, voters.members.end(), [&](Incarnation other) { return other < node; });
    if (member == voters.members.end()) break;
    if (*member != node) continue;
    std::optional<TimePoint> until;
    if (confirmed.sent) until = *confirmed.sent + timing_.lease;
    if (node == self_) until = kNever;
    if (!until) continue;
    held.push_back(*until);
    if (node == voters.tie_breaker) tie_breaker = until;
  }
  return quorum_hold(voters, held, tie_breaker);
}

void LeaderLease::refresh(TimePoint now) {
  refreshed_at_ = now;
  TimePoint until = kNever;
  held_.clear();
  for (const KnownVoterSet& voters : voter_sets_) {
    held_.push_back(held_of(voters));
    until = std::min(until, held_.back().until);
  }
  // A death that is subtracted may cost the majority: it ends now, and has not ended before.
  until_ = until >= now ? until : std::clamp(now, until, std::max(until, until_));
  // What is granted while a round is on offer has to hold under its voter set as well.
  if (offered_) offered_held_ = held_of(*offered_);
  grants_until_ = offered_ ? std::min(until, offered_held_.until) : until;
  if (until > now) is_confirmed_ = true;
}

}  // namespace ddprun
