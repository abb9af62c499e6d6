#include "base/run_main.hpp"

#include "base/exit_status.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

namespace ddprun {
namespace {

void call_where_nothing_may_be_thrown(const std::function<void()>& what) noexcept {
  what();
}

TEST(RunMain, AsksToTryAgainIfMemoryRanOut) {
  EXPECT_EQ(kExitTryAgain, run_main("ddprun", []() -> int { throw std::bad_alloc(); }));
}

TEST(RunMain, AsksToReportADefect) {
  EXPECT_EQ(kExitDefect, run_main("ddprun", []() -> int { throw std::logic_error("x"); }));
}

TEST(RunMain, EndsWithAStatusAndALineIfMemoryRunsOutWhereNothingMayBeThrown) {
  const auto die = [] {
    report_uncaught_exceptions();
    call_where_nothing_may_be_thrown([] { throw std::bad_alloc(); });
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(kExitTryAgain), ": out of memory: try again");
}

}  // namespace
}  // namespace ddprun
