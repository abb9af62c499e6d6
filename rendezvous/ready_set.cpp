#include "rendezvous/ready_set.hpp"

#include "base/check.hpp"

#include <cerrno>
#include <utility>

namespace ddprun {
Result<ReadySet> ReadySet::open(Trigger trigger) {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return make_errno_error(errno, "epoll_create1");
  return ReadySet(std::move(epoll), trigger);
}

epoll_event ReadySet::event_of(Interest interest, std::uint64_t token) const {
  epoll_event event{};
  event.events = (interest.readable ? EPOLLIN : 0U) | (interest.writable ? EPOLLOUT : 0U);
  if (trigger_ == Trigger::kEdge) event.events |= EPOLLET | EPOLLRDHUP;
  event.data.u64 = token;
  return event;
}

Result<void> ReadySet::add(int descriptor, Interest interest, std::uint64_t token) {
  epoll_event event = event_of(interest, token);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return make_errno_error(errno, "epoll_ctl");
  }
  return {};
}

void ReadySet::change(int descriptor, Interest interest, std::uint64_t token) {
  epoll_event event = event_of(interest, token);
  DDPRUN_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) == 0);
}

void ReadySet::remove(int descriptor) {
  DDPRUN_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr) == 0);
}

std::span<const epoll_event> ReadySet::poll(std::span<epoll_event> events, int timeout_ms) {
  const int ready =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  DDPRUN_CHECK(ready >= 0 || errno == EINTR);
  return events.first(ready > 0 ? static_cast<std::size_t>(ready) : 0);
}

}  // namespace ddprun
