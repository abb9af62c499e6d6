#include "agent/core/traceback.hpp"

#include "agent/core/tail.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

const std::string kOne =
    "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n";

std::string from_traceback(const std::string& text) {
  const std::size_t begin = traceback_begin(text);
  return begin == std::string::npos ? "none" : text.substr(begin);
}

TEST(Traceback, BeginsWithItsFirstLine) {
  EXPECT_EQ(from_traceback("loading\n" + kOne + "bye\n"), kOne + "bye\n");
  EXPECT_EQ(from_traceback(kOne), kOne);
  EXPECT_EQ(from_traceback("loading\n"), "none");
  EXPECT_EQ(from_traceback(""), "none");
}

TEST(Traceback, IsTheLastOfSeveral) {
  EXPECT_EQ(from_traceback(kOne + "retrying\n" + kOne), kOne);
}

TEST(Traceback, IsThatWhichHasEndedTheProcessAndNotALaterOneOfAThread) {
  const std::string of_main =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n"
      "RuntimeError: DataLoader worker exited unexpectedly\n";
  const std::string of_thread =
      "Traceback (most recent call last):\n  File \"b.py\", line 1, in _serve\n"
      "ConnectionResetError: Connection reset by peer\n";
  const std::string link =
      "\nThe above exception was the direct cause of the following exception:\n\n";
  EXPECT_EQ(from_traceback(of_main + of_thread), of_main + of_thread);
  EXPECT_EQ(cause_line(of_main + of_thread), "RuntimeError: DataLoader worker exited unexpectedly");
  EXPECT_EQ(
      from_traceback(of_thread + link + of_main + of_thread),
      of_thread + link + of_main + of_thread);
  EXPECT_EQ(
      cause_line(of_main + link + of_thread), "ConnectionResetError: Connection reset by peer");
  EXPECT_EQ(from_traceback("loading\n" + of_thread), of_thread);
}

TEST(Traceback, HasThoseOfTheExceptionsThatLedToIt) {
  for (const std::string link :
       {"The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:"}) {
    const std::string chain = fmt::format("{}\n{}\n\n{}", kOne, link, kOne);
    EXPECT_EQ(from_traceback("loading\n" + chain), chain);
    const std::string longer = fmt::format("{}\n{}\n\n{}", kOne, link, chain);
    EXPECT_EQ(from_traceback(fmt::format("{}retrying\n{}", kOne, longer)), longer);
  }
}

TEST(Traceback, HasThatOfALoaderProcess) {
  const std::string nested =
      "Traceback (most recent call last):\n  File \"a.py\", line 1\n"
      "ValueError: Caught ValueError in DataLoader worker process 0.\n"
      "Original Traceback (most recent call last):\n  File \"b.py\", line 1\n"
      "ValueError: sample 5 is damaged\n";
  EXPECT_EQ(from_traceback("loading\n" + nested), nested);
  EXPECT_EQ(cause_line(nested + "\nbye\n"), "ValueError: sample 5 is damaged");
}

TEST(Traceback, MayHaveTorchsPrefix) {
  const std::string one =
      "[rank0]: Traceback (most recent call last):\n[rank0]:   File\n[rank0]: E: x\n";
  const std::string chain = one +
                            "\n[rank0]: \n[rank0]: During handling of the above exception, another "
                            "exception occurred:\n" +
                            "[rank0]: \n" + one;
  EXPECT_EQ(from_traceback("loading\n" + chain), chain);
  EXPECT_EQ(cause_line(chain), "[rank0]: E: x");
}

TEST(FailureLines, AreTheLastOnesOrAWholeTraceback) {
  std::string noise;
  for (int line = 0; line < 100; ++line) {
    noise += "noise\n";
  }
  EXPECT_EQ(failure_lines_of("a\nb\nc\n", 2), "b\nc");
  EXPECT_EQ(failure_lines_of(noise + kOne, 1) + "\n", kOne);
  EXPECT_EQ(failure_lines_of("before\n" + kOne, 4) + "\n", "before\n" + kOne);
  EXPECT_EQ(failure_lines_of(kOne + noise, 2) + "\n", kOne + noise);
  EXPECT_EQ(failure_lines_of(kOne + noise + noise + noise + noise, 2), "noise\nnoise");
}

}  // namespace
}  // namespace ddprun
