#include "agent/guard_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <sys/mman.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

/// Buffer for the descriptors of one message.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kGuardOrdersMax)> bytes{};
};

bool carries_one(const GuardOrder& order) {
  return order.kind == GuardOrder::Kind::kHoldLine || order.kind == GuardOrder::Kind::kHoldEnd;
}

/// Attaches `descriptors` to the message.
void attach(msghdr& message, Control& control, std::span<const int> descriptors) {
  if (descriptors.empty()) return;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

/// The descriptors attached to a message, in their order. A message has at most one header of them.
std::size_t detach(msghdr& message, std::array<Descriptor, kGuardOrdersMax>& out) {
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return 0;
  const std::size_t count =
      std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), kGuardOrdersMax);
  for (std::size_t i = 0; i < count; ++i) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
    out[i] = Descriptor(descriptor);
  }
  return count;
}

}  // namespace

Result<SharedLease*> SharedLease::create() {
  void* const memory = ::mmap(
      nullptr, sizeof(SharedLease), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return make_errno_error(errno, "cannot share memory");
  return new (memory) SharedLease();
}

Result<std::size_t> send_orders(int channel, std::span<const GuardOrder> orders) {
  orders = orders.first(std::min(orders.size(), kGuardOrdersMax));
  std::array<int, kGuardOrdersMax> descriptors{};
  std::size_t count = 0;
  for (const GuardOrder& order : orders) {
    if (carries_one(order)) descriptors[count++] = order.descriptor;
  }
  // sendmsg takes void* for historical reasons and changes nothing.
  iovec body{.iov_base = const_cast<GuardOrder*>(orders.data()), .iov_len = orders.size_bytes()};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  Control control;
  attach(message, control, std::span(descriptors).first(count));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return orders.size();
  if (errno == EAGAIN) return 0;
  if (errno == EPIPE || errno == ECONNRESET) {
    return make_error(Errc::kPeerLost, "the guard has ended");
  }
  return make_errno_error(errno, "cannot pass a lifeline to the guard");
}

bool receive_orders(int channel, GuardOrders& out) {
  iovec body{.iov_base = out.orders.data(), .iov_len = sizeof out.orders};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  Control control;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  out.count = static_cast<std::size_t>(got) / sizeof(GuardOrder);

  std::array<Descriptor, kGuardOrdersMax> came;
  const std::size_t count = detach(message, came);
  std::size_t next = 0;
  for (std::size_t i = 0; i < out.count; ++i) {
    out.copies[i] =
        carries_one(out.orders[i]) && next < count ? std::move(came[next++]) : Descriptor();
  }
  return true;
}

void send_goodbye(int end) {
  // If it takes no byte, its node has ended or cannot be reached.
  static_cast<void>(::send(end, &kGoodbye, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace ddprun
