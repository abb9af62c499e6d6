#include "trainer/crash_handler.hpp"

#include "base/quiet_thread.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace ddprun {
namespace {

using testing::KilledBySignal;

constexpr char kStack[] = "rank 0: SIGSEGV .*stack of thread .*libc\\.so\\.6";

class CrashHandler : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have handlers of their own, which stay";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

void write_nowhere() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;  // NOLINT(clang-analyzer-core.NullDereference): the crash
}

// NOLINTNEXTLINE(misc-no-recursion): until the stack is full
int overflow(int depth) {
  volatile char page[4096] = {};
  page[depth % 4096] = 1;
  return depth < 0 ? 0 : overflow(depth + 1) + page[0];
}

TEST_F(CrashHandler, LeavesAStackAndTheSignal) {
  const auto crash = [] {
    install_crash_handler();
    write_nowhere();
  };
  EXPECT_EXIT(crash(), KilledBySignal(SIGSEGV), kStack);
}

TEST_F(CrashHandler, HasAStackOfItsOwnForAnOverflow) {
  const auto crash = [] {
    install_crash_handler();
    overflow(0);
  };
  EXPECT_EXIT(crash(), KilledBySignal(SIGSEGV), "rank 0: SIGSEGV .*stack of thread");
}

TEST_F(CrashHandler, ReportsAThreadThatTakesNoOtherSignal) {
  const auto crash = [] {
    install_crash_handler();
    std::thread thread;
    static_cast<void>(start_quiet_thread(thread, "start a thread", write_nowhere).has_value());
    thread.join();
  };
  EXPECT_EXIT(crash(), KilledBySignal(SIGSEGV), kStack);
}

TEST_F(CrashHandler, ReportsAnAbort) {
  const auto crash = [] {
    install_crash_handler();
    std::abort();
  };
  EXPECT_EXIT(crash(), KilledBySignal(SIGABRT), "rank 0: SIGABRT .*stack of thread");
}

TEST_F(CrashHandler, ReportsOneOfManyThreadsThatCrashTogether) {
  const auto crash = [] {
    install_crash_handler();
    std::thread other(write_nowhere);
    write_nowhere();
    other.join();
  };
  EXPECT_EXIT(crash(), KilledBySignal(SIGSEGV), kStack);
}

TEST_F(CrashHandler, LeavesAHandlerThatWasThere) {
  const auto crash = [] {
    std::signal(SIGSEGV, [](int) { std::_Exit(7); });
    install_crash_handler();
    write_nowhere();
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace ddprun
