#include "agent/guard_client.hpp"

#include "base/log.hpp"
#include "rendezvous/stream_of.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace ddprun {
namespace {

using Channel = asio::posix::stream_descriptor;
using Kind = GuardOrder::Kind;

bool holds(const GuardOrder& order) {
  return order.kind == Kind::kHoldLine || order.kind == Kind::kHoldEnd;
}

}  // namespace

GuardClient::GuardClient(asio::io_context& context, AgentBegins began)
    : channel_(stream_of(context, std::move(began.guard))),
      lease_(began.lease),
      took_part_(began.took_part),
      ordered_(context, kNever) {}

asio::awaitable<void> GuardClient::end_with_it() {
  // The guard never writes, so only the end of file can arrive.
  const auto [cancelled] = co_await channel_.async_wait(Channel::wait_read, kTuple);
  if (!cancelled) end_without_guard(ends_);
}

asio::awaitable<void> GuardClient::serve() {
  for (;;) {
    while (!waiting_.empty()) {
      if (!send_some()) co_await channel_.async_wait(Channel::wait_write, kTuple);
    }
    co_await ordered_.async_wait(kTuple);
  }
}

/// False if the guard has to read first.
bool GuardClient::send_some() {
  const auto sent = send_orders(channel_.native_handle(), waiting_);
  if (sent) {
    for (const GuardOrder& order : std::span(waiting_).first(*sent)) {
      if (order.kind == Kind::kHoldEnd) sent_.insert(order.descriptor);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(*sent));
    return *sent > 0;
  }
  if (!sent.error().is(Errc::kPeerLost)) {
    spdlog::warn(
        "phase=unguarded: {}: if this agent is killed, other nodes wait for the lease before they "
        "continue",
        sent.error().detail);
    std::erase_if(waiting_, holds);
  } else {
    waiting_.clear();  // end_with_it() handles that
  }
  return true;
}

/// Sends at once if there is room: an end must be held before any node relies on it.
void GuardClient::order(GuardOrder order) {
  waiting_.push_back(order);
  while (!waiting_.empty() && send_some()) {}
  if (!waiting_.empty()) ordered_.cancel();
}

Result<void> GuardClient::hold_line(int line) {
  // A queued order may release another descriptor that had this number.
  while (!waiting_.empty() && send_some()) {}
  const std::array orders{GuardOrder{.kind = Kind::kHoldLine, .descriptor = line}};
  const auto sent =
      waiting_.empty() ? send_orders(channel_.native_handle(), orders) : Result<std::size_t>(0);
  if (!sent) return sent.error();
  if (*sent > 0) return {};
  return make_error(Errc::kIo, "the guard does not take this node's lifeline: is it stopped?");
}

void GuardClient::hold_end(int end) {
  ends_.insert(end);
  order({.kind = Kind::kHoldEnd, .descriptor = end});
}

bool GuardClient::holds_end(int end) const {
  return sent_.contains(end) && !lease_->guard_is_full();
}

void GuardClient::let_go(int descriptor) {
  ends_.erase(descriptor);
  sent_.erase(descriptor);
  const auto taken_back = std::erase_if(waiting_, [descriptor](const GuardOrder& one) {
    return holds(one) && one.descriptor == descriptor;
  });
  if (taken_back == 0) order({.kind = Kind::kLetGo, .descriptor = descriptor});
}

void GuardClient::workers_run(bool run) {
  run_ = run;
  took_part_ |= run;
  if (took_part_) lease_->set_took_part();
  report_lease();
}

void GuardClient::allow_until(TimePoint until) {
  until_ = until;
  report_lease();
}

void GuardClient::leave(int exit_status) {
  lease_->set_exit_status(exit_status);
  static_cast<void>(send_orders(channel_.native_handle(), std::array{GuardOrder{}}));  // to wake it
}

void GuardClient::report_lease() {
  const TimePoint before = lease_->get();
  const TimePoint now = run_ ? until_ : kNever;
  // This process may be stopped between the calls: if the timer kills it, the lease must be over.
  if (now >= before) {
    death_.set(now);
    lease_->set(now);
    return;  // the guard wakes at the earlier time and reads the new one
  }
  lease_->set(now);
  death_.set(now);
  // At once, since the agent may be stopped in the next moment. If there is no room, the guard has
  // other orders to read, and reads the lease after them.
  static_cast<void>(send_orders(channel_.native_handle(), std::array{GuardOrder{}}));
}

}  // namespace ddprun
