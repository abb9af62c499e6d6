#include "agent/endpoint_watch.hpp"

#include "base/descriptor.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/stream_of.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kRecheckAfter = 300ms;
constexpr auto kLookUpPatience = 1s;

/// A socket that is readable when this machine has got an address, of any interface; none if the
/// kernel or a sandbox does not permit it.
Descriptor open_netlink() {
  Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl group{};
  group.nl_family = AF_NETLINK;
  group.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  const auto* const generic = reinterpret_cast<const sockaddr*>(&group);
  if (socket && ::bind(socket.get(), generic, sizeof group) != 0) socket.reset();
  return socket;
}

/// Drops what has been reported; which address it is does not matter.
void drain(int socket) {
  std::array<char, 8'192> dropped{};
  for (;;) {
    const ssize_t got = ::recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
    const bool has_more = got > 0 || (got < 0 && (errno == EINTR || errno == ENOBUFS));
    if (!has_more) return;
  }
}

}  // namespace

bool has_name(const Endpoint& endpoint) {
  return !numeric_address(endpoint) && endpoint.host != "localhost";
}

EndpointWatch::EndpointWatch(asio::io_context& context, Endpoint endpoint, OnOwn on_own)
    : endpoint_(std::move(endpoint)),
      on_own_(std::move(on_own)),
      netlink_(context),
      next_look_up_(context, kNever) {
  // If it is refused, it stays closed, as without permission.
  if (Descriptor socket = open_netlink()) static_cast<void>(give_to(netlink_, std::move(socket)));
}

void EndpointWatch::serve_in(TaskScope& tasks) {
  if (netlink_.is_open()) tasks.spawn(watch_addresses());
  if (has_name(endpoint_)) tasks.spawn(watch_name());
}

void EndpointWatch::resolved(std::vector<Address> addresses) {
  addresses_ = std::move(addresses);
  next_look_up_.expires_at(Clock::now() + kRecheckAfter);
  check();
}

void EndpointWatch::stop() {
  is_stopped_ = true;  // on_own_ may be running
  boost::system::error_code error;
  static_cast<void>(netlink_.cancel(error));  // closed, perhaps
  next_look_up_.expires_at(Clock::now());
}

void EndpointWatch::check() {
  if (!is_stopped_ && own_among(addresses_)) on_own_(addresses_);
}

/// A call that hangs at a stale address would delay the check of the name's new one.
asio::awaitable<void> EndpointWatch::watch_name() {
  co_await asio::this_coro::throw_if_cancelled(false);
  next_look_up_.expires_at(Clock::now() + kRecheckAfter);
  while (!is_stopped_) {
    const auto [re_armed] = co_await next_look_up_.async_wait(kTuple);
    if (!re_armed && !is_stopped_) {
      Timer limit(next_look_up_.get_executor(), Clock::now() + kLookUpPatience);
      auto addresses = co_await names_.look_up(endpoint_, limit);
      if (addresses) {
        addresses_ = *std::move(addresses);
        check();
      }
      next_look_up_.expires_at(Clock::now() + kRecheckAfter);
    }
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
  }
}

asio::awaitable<void> EndpointWatch::watch_addresses() {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    const auto [error] = co_await netlink_.async_wait(Stream::wait_read, kTuple);
    if (error || is_stopped_) co_return;
    drain(netlink_.native_handle());
    check();
  }
}

}  // namespace ddprun
