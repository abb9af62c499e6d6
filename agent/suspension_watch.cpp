#include "agent/suspension_watch.hpp"

#include "agent/core/suspension.hpp"
#include "rendezvous/stream_of.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <utility>

#include <fcntl.h>

namespace ddprun {

void SuspensionWatch::heed_delay(TimePoint due) {
  if (Resumption::is_late(due, Clock::now())) resumed();
}

void SuspensionWatch::resumed() {
  resumed_at_ = Clock::now();
  lapse_.expires_at(std::max(until_, resumed_at_));
}

bool SuspensionWatch::ends_lease() {
  if (resumption_.take()) resumed();
  const bool may_end = until_ != TimePoint() && until_ != kNever;
  return may_end && ends_by_suspension(until_, lease_, resumed_at_, callbacks_.is_leader_dead());
}

asio::awaitable<void> SuspensionWatch::heed_signals() {
  Descriptor copy(::fcntl(resumption_.descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!copy) co_return;
  auto signals = stream_of(context_, std::move(copy));
  for (;;) {
    co_await signals.async_wait(asio::posix::stream_descriptor::wait_read, kTuple);
    if (resumption_.take()) resumed();
  }
}

asio::awaitable<void> SuspensionWatch::await_lapse() {
  for (;;) {
    const auto [re_armed] = co_await lapse_.async_wait(kTuple);
    if (re_armed) continue;
    lapse_.expires_at(kNever);
    if (!ends_lease()) continue;
    if (has_lease()) {
      lapse_.expires_at(until_);
    } else {
      callbacks_.lapsed();
    }
  }
}

}  // namespace ddprun
