#include "rendezvous/connect.hpp"

#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

Error timed_out() {
  return make_error(Errc::kTimedOut, "no answer by the deadline");
}

/// Until `deadline`, rounded up so that a wait does not end just before it.
int poll_timeout_ms(TimePoint deadline) {
  if (deadline == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

Result<void> wait_ready(int socket, short events, TimePoint deadline) {
  for (;;) {
    pollfd waited{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&waited, 1, poll_timeout_ms(deadline));
    if (ready > 0) return {};
    if (ready == 0 && Clock::now() >= deadline) return timed_out();
    if (ready < 0 && errno != EINTR) return make_errno_error(errno, "poll");
  }
}

Error lost(int errno_value) {
  return make_error(Errc::kPeerLost, std::strerror(errno_value));
}

Result<Descriptor> try_connect(const Address& address, TimePoint deadline) {
  auto socket = start_connect(address);
  if (!socket) return socket.error();
  auto const ready = wait_ready(socket->get(), POLLOUT, deadline);
  if (!ready) return ready.error();
  auto const connected = finish_connect(socket->get());
  if (!connected) return connected.error();
  return socket;
}

}  // namespace

Result<Descriptor> start_connect(const Address& address) {
  Descriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return make_errno_error(errno, "socket");
  tune_connection(socket.get());
  if (::connect(socket.get(), address.get(), address.size) == 0) return socket;
  if (errno != EINPROGRESS) return lost(errno);
  return socket;
}

Result<void> finish_connect(int socket) {
  int failed = 0;
  socklen_t size = sizeof(failed);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return lost(errno);
  if (failed != 0) return lost(failed);
  return {};
}

Result<Descriptor> connect_to(const Endpoint& endpoint, TimePoint deadline) {
  const auto addresses = look_up(endpoint);
  if (!addresses) return addresses.error();
  Result<Descriptor> socket = lost(ECONNREFUSED);
  for (const Address& address : *addresses) {
    socket = try_connect(address, deadline);
    if (socket) return socket;
  }
  return with_context(fmt::format("cannot connect to {}", endpoint.to_string()), socket.error());
}

Result<void> send_all(int socket, std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost(errno);
    auto ready = wait_ready(socket, POLLOUT, deadline);
    if (!ready) return ready;
  }
  return {};
}

Result<void> receive_all(int socket, std::span<char> into, TimePoint deadline) {
  while (!into.empty()) {
    const auto got = receive_some(socket, into, deadline);
    if (!got) return got.error();
    into = into.subspan(*got);
  }
  return {};
}

Result<std::size_t> receive_some(int socket, std::span<char> into, TimePoint deadline) {
  for (;;) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return make_error(Errc::kPeerLost, "the server closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost(errno);
    auto const ready = wait_ready(socket, POLLIN, deadline);
    if (!ready) return ready.error();
  }
}

}  // namespace ddprun
