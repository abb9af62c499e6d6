#include "agent/core/python_stack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

using testing::IsEmpty;

const std::string kSite = "/v/lib/python3.11/site-packages/";

/// As faulthandler writes it.
std::string frame(const std::string& file, int line, const std::string& function) {
  return "  File \"" + file + "\", line " + std::to_string(line) + " in " + function + "\n";
}

const std::string kOther = "Thread 0x00007f2805e846c0 (most recent call first):\n" +
                           frame("/usr/lib/python3.11/threading.py", 320, "wait") + "\n";
const std::string kMain = "Current thread 0x00007f28069d1b80 (most recent call first):\n";

Activity of(const std::string& frames) {
  return activity_of(main_thread_of(kOther + kMain + frames));
}

TEST(PythonStack, IsThatOfTheMainThreadInTheLastDump) {
  const std::string first = kOther + kMain + frame("/w/a.py", 1, "f");
  const std::string second =
      kOther + kMain + frame("/w/a.py", 2, "g") + frame("/w/a.py", 9, "<module>");
  const auto frames = main_thread_of(first + "\n" + second);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0], (PythonFrame{.file = "/w/a.py", .line = 2, .function = "g"}));
  EXPECT_EQ(frames[0].to_string(), "g (a.py:2)");
  EXPECT_EQ(frames[1].to_string(), "a.py:9");
  EXPECT_THAT(main_thread_of(""), IsEmpty());
  EXPECT_THAT(main_thread_of("  File \"a\n  File \"a.py\", line \nnoise\n"), IsEmpty());
}

TEST(PythonStack, LeavesOutWhatHasRunTheScript) {
  const std::string script = frame("/w/train.py", 9, "<module>");
  const auto frames = main_thread_of(
      kMain + script + frame("<ddprun>", 586, "run_file") + frame("<string>", 4, "<module>"));
  EXPECT_EQ(frames.size(), 1U);
  EXPECT_EQ(main_thread_of(kMain + frame("<string>", 4, "<module>")).size(), 1U);
}

TEST(PythonStack, NamesTheCollectiveThatItWaitsIn) {
  const std::string users = frame("/w/train.py", 31, "main") + frame("/w/train.py", 40, "<module>");
  EXPECT_EQ(
      of(frame(kSite + "torch/distributed/distributed_c10d.py", 2501, "all_reduce") +
         frame(kSite + "torch/distributed/c10d_logger.py", 81, "wrapper") + users)
          .to_string(),
      "waits in all_reduce (train.py:31)");
  EXPECT_EQ(
      of(frame(kSite + "torch/distributed/distributed_c10d.py", 2501, "_wait") +
         frame(kSite + "torch/distributed/distributed_c10d.py", 2501, "barrier") +
         frame(kSite + "torch/distributed/c10d_logger.py", 81, "wrapper") + users)
          .to_string(),
      "waits in barrier (train.py:31)");
  EXPECT_EQ(
      of(frame(kSite + "torch/autograd/graph.py", 841, "_engine_run_backward") +
         frame(kSite + "torch/autograd/__init__.py", 354, "backward") +
         frame(kSite + "torch/_tensor.py", 630, "backward") + users)
          .to_string(),
      "waits in backward (train.py:31)");
}

TEST(PythonStack, NamesTheLineOfTheUsersWhereItIs) {
  const std::string users = frame("/w/train.py", 31, "main") + frame("/w/train.py", 40, "<module>");
  EXPECT_EQ(of(users).to_string(), "is in main (train.py:31)");
  EXPECT_EQ(
      of(frame("/usr/lib/python3.11/threading.py", 320, "wait") + users).to_string(),
      "is in wait (threading.py:320), called from train.py:31");
  EXPECT_EQ(of(frame("/w/train.py", 40, "<module>")).to_string(), "is in train.py:40");
}

TEST(PythonStack, NamesTheDataThatItWaitsFor) {
  const std::string loader = frame(kSite + "torch/utils/data/_utils/fetch.py", 54, "<listcomp>") +
                             frame(kSite + "torch/utils/data/dataloader.py", 732, "__next__") +
                             frame("/w/train.py", 40, "<module>");
  EXPECT_EQ(
      of(frame("/w/data.py", 14, "__getitem__") + loader).to_string(),
      "waits for its data (train.py:40): it is in __getitem__ (data.py:14)");
  EXPECT_EQ(
      of(frame("/usr/lib/python3.11/selectors.py", 415, "select") + loader).to_string(),
      "waits for its data (train.py:40): it is in select (selectors.py:415)");
}

}  // namespace
}  // namespace ddprun
