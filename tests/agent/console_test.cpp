// Our own stdout and stderr, and what is written there: several ranks, slow readers, no reader.

#include "tests/agent/streams_fixture.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using testing::HasSubstr;

using ConsoleTest = StreamsTest;

TEST_F(ConsoleTest, NeverMixTheLinesOfTwoRanksOnTheConsole) {
  constexpr int kRanks = 4;
  constexpr int kLines = 2000;
  plan_.streams.all = kTeeOut;
  open();
  {
    const auto captured = capture(1, "console");
    std::vector<pid_t> workers;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string half(40, static_cast<char>('a' + rank));
      workers.push_back(start({.attempt = 0, .local_rank = rank, .rank = rank}, [&] {
        for (int i = 0; i < kLines; ++i) {  // two writes for each line, as print() may do
          print(1, half);
          print(1, half + "\n");
        }
      }));
    }
    for (const pid_t worker : workers)
      EXPECT_EQ(wait(worker), 0);
    finish();
  }
  std::array<int, kRanks> seen{};
  const std::string console = content_of(room_ / "console");
  for (std::size_t at = 0; at < console.size();) {
    const std::string line = console.substr(at, console.find('\n', at) - at);
    at += line.size() + 1;
    ASSERT_EQ(line.size(), 80 + std::string_view("[default0]:").size()) << line;
    const int rank = line[8] - '0';
    ASSERT_EQ(line.substr(11), std::string(80, static_cast<char>('a' + rank)));
    ++seen.at(static_cast<std::size_t>(rank));
  }
  EXPECT_THAT(seen, testing::Each(kLines));
}

TEST_F(ConsoleTest, LoseNoLineOnDiskAndBlockNoWorkerWhenNobodyReadsTheConsole) {
  plan_.streams.all = kTeeOut;
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  const std::string line = std::string(99, 'x') + "\n";
  constexpr std::size_t kLines = 200'000;  // 20 MB, far more than the console's queue takes
  std::vector<int> stuck;
  {
    const Exchanged stdout_exchanged(1, writer.get());
    EXPECT_EQ(
        run(kFirst,
            [&] {
              std::string block;
              for (int i = 0; i < 1000; ++i)
                block += line;
              for (std::size_t i = 0; i < kLines / 1000; ++i)
                print(1, block);
            }),
        0);
    streams_->finish(Clock::now() + 1ms);  // the console is abandoned, the log is not
    stuck = consoles_->flush(1ms);
  }
  EXPECT_THAT(stuck, testing::Contains(1));
  EXPECT_EQ(std::filesystem::file_size(log(kFirst, "stdout.log")), kLines * line.size());
  streams_.reset();
}

TEST_F(ConsoleTest, SayHowManyLinesASlowConsoleMissed) {
  plan_.streams.all = kTeeOut;
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  std::string shown;
  {
    const Exchanged stdout_exchanged(1, writer.get());
    const std::string block(std::size_t{64} * 1024, '\n');
    EXPECT_EQ(
        run(kFirst,
            [&] {
              for (int i = 0; i < 160; ++i)
                print(1, block);
            }),
        0);
    // The worker has ended. Its pipe still holds a little, and the console has not been read yet.
    std::thread reading([&] {
      std::array<char, 65536> buffer{};
      for (ssize_t got = 0; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;)
        shown.append(buffer.data(), static_cast<std::size_t>(got));
    });
    finish();
    streams_.reset();
    {  // the last writers: ours, and the copy that is our stdout
      writer.reset();
      const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
      ::dup2(null.get(), 1);
    }
    reading.join();
  }
  EXPECT_THAT(shown, HasSubstr("lines are not shown: this console is slower than the workers"));
}

TEST_F(ConsoleTest, LeaveNoLineOutWhenTheConsoleIsAFile) {
  plan_.streams.all = kTeeOut;
  open();
  constexpr std::size_t kLines = 10 * kMegabyte;  // of one byte: the prefixes outrun the queue
  {
    const auto captured = capture(1, "console");
    EXPECT_EQ(
        run(kFirst,
            [&] {
              static char block[kMegabyte];
              std::ranges::fill(block, '\n');
              for (std::size_t i = 0; i < kLines / kMegabyte; ++i)
                print(1, {block, kMegabyte});
            }),
        0);
    finish();
  }
  const std::size_t line_bytes = std::string_view("[default0]:\n").size();
  EXPECT_EQ(std::filesystem::file_size(room_ / "console"), kLines * line_bytes);
}

TEST_F(ConsoleTest, PassStderrOnByteForByteAndRememberItsEnd) {
  open();
  {
    const auto captured = capture(2, "stderr");
    run(kFirst, [] { print(2, "one\ntwo\nthree, without a newline"); });
    EXPECT_EQ(streams_->last_lines(kFirst, 2)(), "two\nthree, without a newline");
    finish();
  }
  EXPECT_EQ(content_of(room_ / "stderr"), "one\ntwo\nthree, without a newline");
  EXPECT_EQ(streams_->log_of(kFirst), "");
}

TEST_F(ConsoleTest, PassAllOfALargeStderrThroughASlowConsole) {
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  constexpr std::size_t kBytes = 12 * kMegabyte;  // more than queue and pipes hold together
  std::size_t passed = 0;
  {
    const Exchanged stderr_exchanged(2, writer.get());
    writer.reset();
    const pid_t worker = start(kFirst, [&] {
      const std::string block(std::size_t{64} * 1024, '\n');
      for (std::size_t i = 0; i < kBytes / block.size(); ++i)
        print(2, block);
    });
    std::array<char, 65536> buffer{};
    while (passed < kBytes) {
      const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
      ASSERT_GT(got, 0);
      passed += static_cast<std::size_t>(got);
    }
    EXPECT_EQ(wait(worker), 0);
    finish();
  }
  EXPECT_EQ(passed, kBytes);
}

TEST_F(ConsoleTest, ShowOnlyTheChosenRanks) {
  plan_.streams.all = kTeeOut;
  plan_.streams.console_ranks = {1};
  open();
  constexpr WorkerId kSecond{.attempt = 0, .local_rank = 1, .rank = 1};
  {
    const auto captured = capture(1, "console");
    const auto captured_too = capture(2, "stderr");
    for (const WorkerId& worker : {kFirst, kSecond}) {
      run(worker, [] {
        print(1, "out\n");
        print(2, "err\n");
      });
    }
    finish();
  }
  EXPECT_EQ(content_of(room_ / "console"), "[default1]:out\n");
  EXPECT_EQ(content_of(room_ / "stderr"), "err\n");
  EXPECT_EQ(content_of(log(kFirst, "stdout.log")), "out\n");
  EXPECT_EQ(streams_->last_lines(kFirst, 5)(), "err");
}

TEST_F(ConsoleTest, SaysWhatAWorkerSaidBeforeTheReportOfItsEnd) {
  open();
  {
    const auto captured = capture(2, "stderr");
    run(kFirst, [] { print(2, "one\nhalf a line"); });
    EXPECT_EQ(streams_->last_lines(kFirst, 1)(), "half a line");
    consoles_->of(2).value()->write("the report\n");
    finish();
  }
  EXPECT_EQ(content_of(room_ / "stderr"), "one\nhalf a line\nthe report\n");
}

TEST_F(ConsoleTest, TakesLogLinesThatNobodyReadsWithoutBlockingTheLoggingThread) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  std::vector<int> stuck;
  {
    const Exchanged stderr_exchanged(2, writer.get());
    ASSERT_TRUE(consoles_->take_log());
    const std::string word(1000, 'x');
    for (int i = 0; i < 1000; ++i) {  // far more than the pipe holds
      spdlog::error("{}", word);
      report("{}", word);
    }
    stuck = consoles_->flush(1ms);
  }
  EXPECT_THAT(stuck, testing::ElementsAre(2));
}

TEST_F(ConsoleTest, WritesReportsAndLogLinesInOrderAndLosesNoneAfterTheLastFlush) {
  {
    const auto captured = capture(2, "stderr");
    report("before");
    ASSERT_TRUE(consoles_->take_log());
    consoles_->of(2).value()->append("half a line");
    report("first");
    spdlog::error("second");
    report_lines("third\n  in one piece\n");
    EXPECT_THAT(consoles_->flush(60s), testing::IsEmpty());
    report("after");
    consoles_.reset();
    report("at the end");
  }
  EXPECT_THAT(
      content_of(room_ / "stderr"),
      testing::MatchesRegex("streams_test: before\n"
                            "half a line\nstreams_test: first\n"
                            "[0-9:.]+ streams_test error second\n"
                            "third\n  in one piece\n"
                            "streams_test: after\nstreams_test: at the end\n"));
}

TEST_F(ConsoleTest, GivesTheLogBackIfTheAgentFails) {
  {
    const auto captured = capture(2, "stderr");
    ASSERT_TRUE(consoles_->take_log());
    report("inside");
    consoles_.reset();
    report("outside");
  }
  EXPECT_EQ(content_of(room_ / "stderr"), "streams_test: inside\nstreams_test: outside\n");
}

}  // namespace
}  // namespace ddprun
