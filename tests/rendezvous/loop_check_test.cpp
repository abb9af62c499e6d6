#include "rendezvous/loop_check.hpp"

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

int watched = 0;
int refused = -1;  // which descriptor the kernel refuses to watch

}  // namespace

/// In place of the C library's, with its signature.
// NOLINTNEXTLINE(misc-const-correctness)
extern "C" int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && watched++ == refused) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event));
}

namespace ddprun {
namespace {

TEST(CheckTimers, SucceedsAndLeavesTheLoopUsable) {
  asio::io_context context(1);
  ASSERT_TRUE(check_timers(context));
  bool ran = false;
  asio::post(context, [&ran] { ran = true; });
  context.run();
  EXPECT_TRUE(ran);
}

TEST(CheckTimers, EndsWithAReasonIfTheKernelDoesNotWatchTheTimer) {
  watched = 0;
  refused = 1;  // Asio adds its timer second
  asio::io_context context(1);
  const auto checked = check_timers(context, std::chrono::milliseconds(50));
  refused = -1;
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().is(Errc::kIo));
}

}  // namespace
}  // namespace ddprun
