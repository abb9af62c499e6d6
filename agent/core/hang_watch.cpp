#include "agent/core/hang_watch.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr std::int64_t kStepsOfAPace = 2;
constexpr std::int64_t kSlowestMax = std::int64_t{1'000'000'000} * 86'400;
constexpr std::int64_t kPauseMax = kSlowestMax * 3'650;

}  // namespace

std::int64_t HangWatch::limit() const {
  if (plan_.limit) return plan_.limit->count();
  return std::max<std::int64_t>(kLeast.count(), kTimesSlowest * slowest_);
}

void HangWatch::begin_round(std::int64_t now) {
  *this = HangWatch(plan_);
  is_running_ = plan_.is_watched;
  if (is_running_) due_ = now + limit();
}

void HangWatch::excuse(std::int64_t now) {
  excused_until_ = now;
  if (is_running_) due_ = now + limit();
}

HangWatch::Finding HangWatch::look(std::span<const contract::StepSlot> slots, std::int64_t now) {
  if (!is_running_) return Finding::kNothing;
  std::int64_t stepped_at = 0;
  std::int64_t busy_until = 0;
  bool has_pace = false;
  slowest_ = 0;
  for (const contract::StepSlot& slot : slots) {
    has_pace = has_pace || slot.steps >= kStepsOfAPace;
    stepped_at = std::max(stepped_at, std::min(slot.stepped_at, now));
    slowest_ = std::max(slowest_, std::min(slot.slowest, kSlowestMax));
    busy_until = std::max(busy_until, std::min(slot.busy_until, now + kPauseMax));
  }
  const bool has_stepped = stepped_at > stepped_at_;
  const bool resumes = std::exchange(is_hung_, is_hung_ && !has_stepped) && has_stepped;
  if (has_stepped) waited_ = 0;
  stepped_at_ = stepped_at;
  if (!has_pace) {
    due_ = now + limit();
    return Finding::kNothing;
  }
  const std::int64_t since = std::max({stepped_at, busy_until, excused_until_});
  const std::int64_t silent_at = since + limit() * (1 + waited_);
  // A pause may end early, which nobody tells.
  due_ = std::min(silent_at, now + limit());
  if (now < silent_at) return resumes ? Finding::kResumed : Finding::kNothing;
  if (is_hung_) {
    due_ = now + limit();
    return Finding::kNothing;
  }
  due_.reset();
  return Finding::kSilent;
}

bool HangWatch::judged(Judgement judgement, std::int64_t now) {
  due_ = now + limit();
  const bool may_go_on =
      judgement == Judgement::kElsewhere || (judgement == Judgement::kComputes && !plan_.limit);
  if (may_go_on && waited_ < kPatience) {
    ++waited_;
    return false;
  }
  is_hung_ = true;
  return true;
}

}  // namespace ddprun
