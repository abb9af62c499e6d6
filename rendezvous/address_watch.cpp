#include "rendezvous/address_watch.hpp"

#include "base/descriptor.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

/// Takes what has been told; which address it is does not matter.
void drain(int socket) {
  std::array<char, 8'192> told{};
  for (;;) {
    const ssize_t got = ::recv(socket, told.data(), told.size(), MSG_DONTWAIT);
    const bool has_more = got > 0 || (got < 0 && (errno == EINTR || errno == ENOBUFS));
    if (!has_more) return;
  }
}

}  // namespace

Result<std::unique_ptr<AddressWatch>> AddressWatch::open(
    asio::io_context& context, std::function<void()> on_change) {
  Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl group{};
  group.nl_family = AF_NETLINK;
  group.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&group), sizeof group) != 0) {
    return make_errno_error(errno, "cannot watch this machine's addresses");
  }
  return std::unique_ptr<AddressWatch>(
      new AddressWatch(Stream(context, socket.release()), std::move(on_change)));
}

AddressWatch::AddressWatch(Stream socket, std::function<void()> on_change)
    : socket_(std::move(socket)), on_change_(std::move(on_change)) {}

asio::awaitable<void> AddressWatch::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    const auto [error] = co_await socket_.async_wait(Stream::wait_read, kTuple);
    if (error || is_stopped_) co_return;
    drain(socket_.native_handle());
    on_change_();
  }
}

void AddressWatch::stop() {
  is_stopped_ = true;  // on_change_ may be running
  socket_.cancel();
}

}  // namespace ddprun
