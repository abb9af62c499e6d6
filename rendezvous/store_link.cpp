#include "rendezvous/store_link.hpp"

#include "rendezvous/listener.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace ddprun {
namespace {

constexpr std::size_t kPiecesMax = 64;

// What is read first where a large value is expected: enough for its key and length.
constexpr std::size_t kHeadBytes = 512;

/// Receives into `first`, then `second`; -1 with errno as recv.
ssize_t receive_into(int socket, std::span<char> first, std::span<char> second) {
  if (first.empty()) return ::recv(socket, second.data(), second.size(), MSG_DONTWAIT);
  std::array<iovec, 2> parts = {
      iovec{.iov_base = first.data(), .iov_len = first.size()},
      iovec{.iov_base = second.data(), .iov_len = second.size()}};
  return ::readv(socket, parts.data(), parts.size());
}

ssize_t send_pieces(int socket, std::span<const std::string_view> pieces) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (pieces.size() == 1) return ::send(socket, pieces[0].data(), pieces[0].size(), kFlags);
  std::array<iovec, kPiecesMax> parts{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    // sendmsg only reads what iov_base points to.
    parts[i] = iovec{.iov_base = const_cast<char*>(pieces[i].data()), .iov_len = pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = pieces.size();
  return ::sendmsg(socket, &message, kFlags);
}

Error lost_peer(int errno_value) {
  return make_error(Errc::kPeerLost, std::strerror(errno_value));
}

}  // namespace

StoreLink::StoreLink(Link link, Descriptor socket, const StoreLimits& limits)
    : link_(link), socket_(std::move(socket)), limits_(limits), parser_(limits) {}

// A client that sends large values sends more of them. With only the head of a request in the
// buffer the rest goes straight into the value's memory; that saves a copy for one short system
// call.
Result<void> StoreLink::receive(std::span<char> buffer, Store& store, std::vector<Link>& released) {
  if (parser_.expects_large() && parser_.value_space().empty()) {
    const auto head = receive_some(buffer.first(kHeadBytes), store, released);
    if (!head) return head.error();
    if (*head < kHeadBytes || !interest().readable) return {};
  }
  const auto got = receive_some(buffer, store, released);
  if (!got) return got.error();
  return {};
}

// Receives once; returns how much, and 0 also when nothing was there.
Result<std::size_t> StoreLink::receive_some(
    std::span<char> buffer, Store& store, std::vector<Link>& released) {
  const std::span<char> place = parser_.value_space();
  const ssize_t got = receive_into(socket_.get(), place, buffer);
  unread_ =
      got < 0 ? errno == EINTR : static_cast<std::size_t>(got) == place.size() + buffer.size();
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return 0;
    return lost_peer(errno);
  }
  if (got == 0) {
    // What was complete has been carried out; a truncated request leaves no trace.
    ended_ = true;
    store.lost(link_);
    return 0;
  }
  const auto size = static_cast<std::size_t>(got);
  const std::size_t in_place = std::min(size, place.size());
  if (in_place > 0) parser_.value_filled(in_place);
  auto const taken = take(std::string_view(buffer.data(), size - in_place), store, released);
  if (!taken) return taken.error();
  return size;
}

Result<void> StoreLink::resume(Store& store, std::vector<Link>& released) {
  if (backlog_.empty() || protocol_ != Protocol::kStore) return {};
  if (replies_.unsent() > limits_.unsent_bytes_max) return {};
  const std::string input = std::exchange(backlog_, std::string());
  return carry_out(input, store, released);
}

Result<void> StoreLink::send() {
  std::array<std::string_view, kPiecesMax> pieces;
  while (replies_.unsent() > 0) {
    const std::size_t used = replies_.gather(pieces);
    const ssize_t sent = send_pieces(socket_.get(), std::span(pieces).first(used));
    if (sent < 0) {
      if (errno == EAGAIN) return {};
      if (errno == EINTR) continue;
      return lost_peer(errno);
    }
    std::size_t offered = 0;
    for (std::size_t i = 0; i < used; ++i) {
      offered += pieces[i].size();
    }
    replies_.consume(static_cast<std::size_t>(sent));
    progressed = true;
    // Less than was offered: the socket is full, and another call would only say so.
    if (static_cast<std::size_t>(sent) < offered) return {};
  }
  return {};
}

ReadySet::Interest StoreLink::interest() const {
  // What waits to be carried out continues as soon as there is room for its replies.
  const bool blocked = is_held_up() || replies_.unsent() > limits_.unsent_bytes_max;
  return {.readable = !ended_ && !blocked, .writable = is_held_up() || replies_.unsent() > 0};
}

bool StoreLink::is_unfinished() const {
  const bool may_read = (unread_ || end_expected_) && interest().readable;
  const bool may_carry_out = is_held_up() && replies_.unsent() == 0;
  return may_read || may_carry_out;
}

void StoreLink::shut() {
  ::shutdown(socket_.get(), SHUT_WR);
}

StoreLink::Handover StoreLink::hand_over() {
  return {.socket = std::move(socket_), .received = std::move(backlog_)};
}

std::string StoreLink::peer() const {
  return peer_of(socket_.get());
}

Result<void> StoreLink::take(std::string_view input, Store& store, std::vector<Link>& released) {
  if (protocol_ == Protocol::kStore) return carry_out(input, store, released);
  backlog_.append(input);
  protocol_ = detect(backlog_);
  if (protocol_ != Protocol::kStore) return {};
  if (!barred_.empty()) return make_error(Errc::kProtocol, barred_);
  const std::string all = std::exchange(backlog_, std::string());
  return carry_out(all, store, released);
}

Result<void> StoreLink::carry_out(
    std::string_view input, Store& store, std::vector<Link>& released) {
  for (;;) {
    auto complete = parser_.read(input);
    if (!complete) return complete.error();
    if (!*complete) return {};
    auto applied = store.apply(link_, parser_.request(), replies_, released);
    parser_.carried_out();
    if (!applied) return applied;
    if (replies_.unsent() > limits_.unsent_bytes_max && !input.empty()) {
      backlog_.assign(input);
      return {};
    }
  }
}

}  // namespace ddprun
