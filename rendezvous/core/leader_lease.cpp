#include "rendezvous/core/leader_lease.hpp"

#include "base/check.hpp"
#include "rendezvous/core/policy.hpp"

#include <cstddef>
#include <functional>

namespace ddprun {
namespace {

constexpr std::size_t kAnswersKept = 16;
constexpr std::size_t kSmall = 16;  // nodes, up to which every beat counts at once
constexpr int kRefreshesPerLease = 16;

}  // namespace

LeaderLease::LeaderLease(
    Incarnation self, Timing timing, std::vector<KnownElectorate> electorates, TimePoint now)
    : self_(self),
      timing_(timing),
      electorates_(std::move(electorates)),
      confirm_by_(now + timing.lease + timing.margin),
      until_(now),
      grants_until_(now) {}

void LeaderLease::join(Incarnation node, const Standing& standing, TimePoint now) {
  Confirmed& confirmed = confirmed_[node];
  confirmed.beat = 0;
  confirmed.answers.clear();
  confirmed.answers.emplace_back(0, now);
  for (KnownElectorate& electorate : electorates_) {
    for (const Electorate* told : electorates_of(standing)) {
      if (told->is_member && told->round == electorate.round && told->size != 0) {
        electorate.members.insert(node);
      }
    }
  }
}

void LeaderLease::beat(Incarnation node, const Beat& beat, TimePoint now) {
  Confirmed& confirmed = confirmed_.at(node);
  confirmed.beat = std::max(confirmed.beat, beat.number);
  confirmed.beat_at = now;
  auto& answers = confirmed.answers;
  while (!answers.empty() && answers.front().first <= beat.heard) {
    confirmed.sent = std::max(confirmed.sent.value_or(TimePoint()), answers.front().second);
    answers.pop_front();
  }
  answers.emplace_back(beat.number, now);
  if (answers.size() > kAnswersKept) answers.pop_front();
  const bool is_large = confirmed_.size() > kSmall;
  const bool is_fresh = now < refreshed_at_ + timing_.lease / kRefreshesPerLease;
  if (!is_large || !is_fresh) refresh(now);
}

Answer LeaderLease::answer(Incarnation node) const {
  const Confirmed& confirmed = confirmed_.at(node);
  const bool is_limited = grants_until_ < confirmed.beat_at + timing_.lease;
  const Duration rest = std::max(Duration::zero(), grants_until_ - confirmed.beat_at);
  return {
      .number = confirmed.beat,
      .grant = is_limited ? rest : timing_.lease,
      .electorate = electorates_.front().round,
      .electorate_size = electorates_.front().size,
      .next = next_beat(node, confirmed.beat_at)};
}

/// When the flock of `node` is next. It keeps its flock, and so, after the first time, its
/// interval.
Duration LeaderLease::next_beat(Incarnation node, TimePoint arrived) const {
  const Duration interval = beat_interval(timing_.lease);
  const auto flock = static_cast<std::int64_t>(static_cast<std::uint64_t>(node) % kBeatFlocks);
  const Duration begin = interval * flock / kBeatFlocks;
  const Duration since = (arrived.time_since_epoch() + interval - begin) % interval;
  const Duration rest = interval - since;
  // It came a little early, or its flock has only just been.
  return rest < interval / 4 ? rest + interval : rest;
}

void LeaderLease::died(Incarnation node, TimePoint now) {
  const auto found = confirmed_.find(node);
  if (found == confirmed_.end()) return;
  const auto& sent = found->second.sent;
  const bool held = sent && now < *sent + timing_.lease + timing_.margin;
  if (held) {
    for (KnownElectorate& electorate : electorates_) {
      if (electorate.members.erase(node) != 0) --electorate.size;
    }
  }
  confirmed_.erase(found);
  refresh(now);
}

void LeaderLease::offer(KnownElectorate electorate, TimePoint now) {
  offered_ = std::move(electorate);
  refresh(now);
}

void LeaderLease::start(TimePoint now) {
  auto begun = std::exchange(offered_, std::nullopt);
  DDPRUN_CHECK(begun.has_value());
  electorates_.clear();
  electorates_.push_back(*std::move(begun));
  refresh(now);
}

bool LeaderLease::renew(TimePoint now) {
  if (now >= until_) refresh(now);
  if (now < until_) return true;
  // Until a majority has answered for the first time, nothing was granted or started.
  if (is_confirmed_ || now >= confirm_by_) is_over_ = true;
  return false;
}

/// Until when a majority of it has promised to nobody else.
TimePoint LeaderLease::held_until(const KnownElectorate& electorate) const {
  std::vector<TimePoint> held;
  held.reserve(electorate.members.size());
  // Both are in the same order, and many times a second this is asked for thousands.
  auto member = electorate.members.begin();
  for (const auto& [node, confirmed] : confirmed_) {
    member = std::find_if_not(
        member, electorate.members.end(), [&](Incarnation other) { return other < node; });
    if (member == electorate.members.end()) break;
    if (*member != node) continue;
    if (node == self_) {
      held.push_back(kNever);
    } else if (confirmed.sent) {
      held.push_back(*confirmed.sent + timing_.lease);
    }
  }
  const auto needed = static_cast<std::size_t>(electorate.size / 2);  // and one more
  if (held.size() <= needed) return {};
  const auto last = held.begin() + static_cast<std::ptrdiff_t>(needed);
  std::ranges::nth_element(held, last, std::greater<>());
  return *last;
}

void LeaderLease::refresh(TimePoint now) {
  refreshed_at_ = now;
  TimePoint until = kNever;
  for (const KnownElectorate& electorate : electorates_) {
    until = std::min(until, held_until(electorate));
  }
  // A death that is subtracted may cost the majority: it ends now, and has not ended before.
  until_ = until >= now ? until : std::clamp(now, until, std::max(until, until_));
  // What is granted while a round is on offer has to hold under its electorate as well.
  grants_until_ = offered_ ? std::min(until, held_until(*offered_)) : until;
  if (until > now) is_confirmed_ = true;
}

}  // namespace ddprun
