#include "rendezvous/core/second_connection.hpp"

#include "base/check.hpp"
#include "rendezvous/core/policy.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

bool SecondConnection::is_due(TimePoint silent_at, TimePoint now, Effects& out) {
  if (call_ && now < call_->until) return false;
  drop(out);
  return now >= silent_at;
}

void SecondConnection::call(Link link, TimePoint now, Effects& out) {
  call_ = Call{.link = link, .greeted_at = {}, .until = now + patience()};
  out.emplace_back(effects::Call{.link = link, .to = voter_.leader().node.listens});
}

/// The leader has been reached, and has to answer as soon as it can. A slow one gets more time with
/// each call.
void SecondConnection::greet(TimePoint now, Effects& out) {
  DDPRUN_CHECK(call_ && call_->link);
  constexpr int kDoublingsMax = 3;
  call_->greeted_at = now;
  greeted_in_vain_ = std::min(greeted_in_vain_ + 1, kDoublingsMax);
  call_->until = now + patience() * (1 << greeted_in_vain_);
  out.emplace_back(effects::Send{.to = *call_->link, .message = voter_.hello()});
}

Duration SecondConnection::patience() const {
  const Duration least = call_interval(voter_.leader().lease);
  return std::max(least, 2 * std::min(voter_.leader().round_trip, 2 * least));
}

void SecondConnection::heard_on_first(Effects& out) {
  // Once the leader has been greeted on the second one, it ends the first connection itself.
  if (call_ && !call_->greeted_at) drop(out);
  if (!call_) greeted_in_vain_ = 0;
}

void SecondConnection::drop(Effects& out) {
  const auto dropped = std::exchange(call_, std::nullopt);
  if (dropped && dropped->link) out.emplace_back(effects::Close{.link = *dropped->link});
}

SecondConnection::Call SecondConnection::take() {
  DDPRUN_CHECK(call_.has_value());
  const Call taken = *call_;
  call_.reset();
  return taken;
}

}  // namespace ddprun
