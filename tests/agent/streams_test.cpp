// Streams with real processes, files and pipes: row 11 and the output half of row 12.

#include "base/parse.hpp"
#include "tests/agent/streams_fixture.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>

namespace ddprun {
namespace {

using testing::HasSubstr;

constexpr int kKills = kIsSanitized ? 100 : 1000;

/// Both ends of a pipe.
struct PipeEnds {
  PipeEnds() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }
  Descriptor reader;
  Descriptor writer;
};

/// Our stdout and stderr, replaced by a pipe, while a worker waits until we have read a text.
struct WatchedConsole {
  /// Reads until `text` has arrived; a broken build hangs here until CTest ends it.
  void await(std::string_view text) {
    while (seen.find(text) == std::string::npos) {
      char bytes[4096];
      const ssize_t got = ::read(console.reader.get(), bytes, sizeof bytes);
      ASSERT_GT(got, 0) << seen;
      seen.append(bytes, static_cast<std::size_t>(got));
    }
  }

  PipeEnds console;
  Exchanged out{1, console.writer.get()};
  Exchanged err{2, console.writer.get()};
  std::string seen;
};

TEST_F(StreamsTest, LayOutTheirDirectoryAsTorchrunDoes) {
  plan_.streams.all = kRedirect;
  open();
  EXPECT_EQ(streams_->directory().parent_path(), room_ / "logs");
  EXPECT_TRUE(streams_->directory().filename().string().starts_with("job_"));
  constexpr WorkerId kWorker{.attempt = 2, .local_rank = 13, .rank = 29};
  ASSERT_TRUE(attach(kWorker));
  EXPECT_EQ(
      streams_->error_file_of(kWorker), streams_->directory() / "attempt_2" / "13" / "error.json");
  EXPECT_TRUE(std::filesystem::exists(streams_->directory() / "attempt_2" / "13" / "stdout.log"));
  EXPECT_TRUE(std::filesystem::exists(streams_->directory() / "attempt_2" / "13" / "stderr.log"));
}

TEST_F(StreamsTest, DoNotWaitForTheStuckDiskOfAnotherWorker) {
  plan_.streams.all = kTeeOut;
  plan_.streams.console_ranks = {7};
  open();
  constexpr WorkerId kSecond{.attempt = 0, .local_rank = 1, .rank = 1};
  // A FIFO that nobody reads takes 64 KiB, and then nothing, as a disk that does not respond.
  const auto stuck = log(kFirst, "stdout.log");
  std::filesystem::create_directories(stuck.parent_path());
  ASSERT_EQ(::mkfifo(stuck.c_str(), 0600), 0);
  const Descriptor reader(::open(stuck.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string much(3 * kMegabyte, 'x');
  const pid_t waiting = start(kFirst, [&] { print(1, much); });
  run(kSecond, [&] { print(1, much); });
  streams_->finish(Clock::now() + 2s);
  EXPECT_EQ(content_of(log(kSecond, "stdout.log")).size(), much.size());
  ::kill(waiting, SIGKILL);
  wait(waiting);
}

TEST_F(StreamsTest, KeepTheLastLineBeforeASigkillInARedirectedLog) {
  plan_.streams.all = kRedirect;
  open();
  for (int i = 0; i < kKills; ++i) {
    const WorkerId worker{.attempt = i, .local_rank = 0, .rank = 0};
    const std::string line = "last line of " + std::to_string(i) + "\n";
    run(worker, [&] {
      print(1, line);
      ::kill(::getpid(), SIGKILL);
    });
    ASSERT_EQ(content_of(log(worker, "stdout.log")), line);
  }
}

TEST_F(StreamsTest, KeepTheLastLineBeforeASigkillInATeedLog) {
  plan_.streams.all = kTeeOut;
  plan_.streams.console_ranks = {7};
  open();
  std::vector<std::pair<WorkerId, std::string>> expected;
  for (int i = 0; i < kKills; ++i) {
    const WorkerId worker{.attempt = i, .local_rank = 0, .rank = 0};
    expected.emplace_back(worker, "last line of " + std::to_string(i) + "\n");
    run(worker, [&] {
      print(1, expected.back().second);
      ::kill(::getpid(), SIGKILL);
    });
  }
  finish();
  for (const auto& [worker, line] : expected) {
    ASSERT_EQ(content_of(log(worker, "stdout.log")), line);
  }
}

// Each step is written when the previous one has arrived: if output is held back, the test hangs.
TEST_F(StreamsTest, PassAProgressBarOnAtOnceTeedOrNot) {
  for (const auto& modes : {StreamsPlan::Modes{}, kTee}) {
    plan_.streams.all = modes;
    open();
    WatchedConsole console;
    const PipeEnds go;
    const pid_t worker = start(kFirst, [&] {
      char byte = 0;
      for (const std::string_view step : {"\r 10%", "\r 20%", "\r 30%", "\n"}) {
        print(2, step);
        [[maybe_unused]] const ssize_t got = ::read(go.reader.get(), &byte, 1);
      }
    });
    for (const std::string_view step : {" 10%", " 20%", " 30%"}) {
      console.await(step);
      print(go.writer.get(), "+");
    }
    print(go.writer.get(), "+");
    EXPECT_EQ(wait(worker), 0);
    finish();
  }
}

TEST_F(StreamsTest, PrefixOneLineWhoseTwoEndBytesAreWrittenApart) {
  plan_.streams.all = kTee;
  open();
  WatchedConsole console;
  const PipeEnds go;
  const pid_t worker = start(kFirst, [&] {
    char byte = 0;
    print(2, "first\r");
    [[maybe_unused]] const ssize_t got = ::read(go.reader.get(), &byte, 1);  // until that was shown
    print(2, "\n");
    print(2, "second\n");
  });
  console.await("first\n");
  print(go.writer.get(), "+");
  EXPECT_EQ(wait(worker), 0);
  finish();
  console.await("second\n");
  EXPECT_EQ(std::ranges::count(console.seen, '\n'), 2) << console.seen;
}

TEST_F(StreamsTest, PassOnALineThatGrowsWithoutAnEnd) {
  for (const auto& modes : {StreamsPlan::Modes{}, kTee}) {
    plan_.streams.all = modes;
    open();
    WatchedConsole console;
    PipeEnds stop;
    const pid_t worker = start(kFirst, [&] {
      stop.writer.reset();
      pollfd told{.fd = stop.reader.get(), .events = POLLIN, .revents = 0};
      do {  // much faster than a half line is passed on
        print(2, ".");
      } while (::poll(&told, 1, 5) == 0);
    });
    console.await("..");
    stop.writer.reset();
    EXPECT_EQ(wait(worker), 0);
    finish();
  }
}

// As Python's print() writes with -u: the text, then the newline.
TEST_F(StreamsTest, KeepLinesOfSeveralWorkersWhole) {
  constexpr int kWorkers = 4;
  constexpr int kLines = 2000;
  plan_.workers = kWorkers;
  open();
  {
    const auto captured = capture(1, "console");
    std::vector<pid_t> workers;
    workers.reserve(kWorkers);
    for (int rank = 0; rank < kWorkers; ++rank) {
      workers.push_back(start({.attempt = 0, .local_rank = rank, .rank = rank}, [] {
        for (int i = 0; i < kLines; ++i) {
          print(1, "a line of text");
          print(1, "\n");
        }
      }));
    }
    for (const pid_t worker : workers)
      EXPECT_EQ(wait(worker), 0);
    finish();
  }
  const std::string console = content_of(room_ / "console");
  std::size_t torn = 0;
  for (const std::string_view line : split(console, '\n'))
    torn += line.empty() || line == "a line of text" ? 0 : 1;
  EXPECT_EQ(std::ranges::count(console, '\n'), kWorkers * kLines);
  // If a worker gets no CPU time for 0.2 s between the two, its half line is shown.
  EXPECT_LE(torn, 10U);
}

TEST_F(StreamsTest, LeaveStdoutToAWorkerThatHasItForItself) {
  const auto captured = capture(1, "console");
  for (const bool filtered : {false, true}) {
    plan_.workers = filtered ? 2 : 1;
    if (filtered) plan_.streams.console_ranks = {0};
    open();
    const auto attached = attach(kFirst);
    ASSERT_TRUE(attached);
    EXPECT_FALSE(attached->out);
  }
}

TEST_F(StreamsTest, RememberTheEndOfARedirectedStderr) {
  plan_.streams.all = kRedirect;
  open();
  run(kFirst, [] { print(2, "a\nb\nc\n"); });
  EXPECT_EQ(streams_->last_lines(kFirst, 2)(), "b\nc");
  EXPECT_EQ(streams_->log_of(kFirst), log(kFirst, "").parent_path());
}

TEST_F(StreamsTest, OutliveAWorkerThatClosesItsOutputs) {
  plan_.streams.all = kTee;
  open();
  const auto captured = capture(1, "console");
  const auto captured_too = capture(2, "stderr");
  const int status = run(kFirst, [] {
    print(1, "before\n");
    ::close(1);
    ::close(2);
  });
  EXPECT_EQ(status, 0);
  finish();
  EXPECT_EQ(content_of(log(kFirst, "stdout.log")), "before\n");
}

TEST_F(StreamsTest, TakeAGigabyteWithoutANewlineInBoundedMemory) {
  constexpr std::size_t kBytes = (kIsSanitized ? 64 : 1024) * kMegabyte;
  plan_.streams.all = kTeeOut;
  open();
  std::filesystem::create_directories(log(kFirst, "").parent_path());
  {
    const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const Exchanged stdout_exchanged(1, null.get());
    const pid_t worker = start(kFirst, [&] {
      static char block[kMegabyte];
      for (std::size_t i = 0; i < kBytes / kMegabyte; ++i)
        print(1, {block, kMegabyte});
    });
    EXPECT_EQ(wait(worker), 0);
    finish();
  }
  EXPECT_EQ(std::filesystem::file_size(log(kFirst, "stdout.log")), kBytes);
}

TEST_F(StreamsTest, StopTheLogAndNotTheWorkerWhenTheDiskIsFull) {
  plan_.streams.all = kTeeOut;
  open();
  std::filesystem::create_directories(log(kFirst, "").parent_path());
  std::filesystem::create_symlink("/dev/full", log(kFirst, "stdout.log"));
  {
    const auto captured = capture(1, "console");
    EXPECT_EQ(
        run(kFirst,
            [] {
              for (int i = 0; i < 100; ++i)
                print(1, "line\n");
            }),
        0);
    finish();
  }
  const std::string console = content_of(room_ / "console");
  EXPECT_EQ(std::ranges::count(console, '\n'), 100);
}

TEST_F(StreamsTest, SetFilteredLinesAsideForTheWholeAttempt) {
  plan_.streams.all = kTeeOut;
  plan_.streams.duplicate_out = {"loss"};
  plan_.streams.prefix_template = "${rank}|";
  open();
  {
    const auto captured = capture(1, "console");
    run(kFirst, [] { print(1, "loss 1\nother\n"); });
    finish();
  }
  EXPECT_EQ(content_of(streams_->directory() / "attempt_0" / "filtered_stdout.log"), "0|loss 1\n");
  EXPECT_EQ(content_of(room_ / "console"), "0|loss 1\n0|other\n");
}

TEST_F(StreamsTest, MakeNoFileWhenLogsGoToDevNull) {
  plan_.streams.no_files = true;
  plan_.streams.all = kTee;
  open();
  const auto captured = capture(2, "stderr");
  const auto attached = attach(kFirst);
  ASSERT_TRUE(attached);
  EXPECT_FALSE(attached->out);
  EXPECT_EQ(streams_->error_file_of(kFirst), "");
  EXPECT_EQ(streams_->directory(), "");
  EXPECT_FALSE(std::filesystem::exists(room_ / "logs"));
}

TEST_F(StreamsTest, RemoveTheirOwnDirectoryAfterSuccessOnlyIfItHoldsNoLog) {
  plan_.streams.log_directory.reset();
  ASSERT_EQ(::setenv("TMPDIR", room_.c_str(), 1), 0);
  open();
  const auto without_logs = streams_->directory();
  EXPECT_TRUE(without_logs.parent_path().filename().string().starts_with("torchelastic_"));
  ASSERT_TRUE(attach(kFirst));
  finish();
  EXPECT_FALSE(std::filesystem::exists(without_logs.parent_path()));

  plan_.streams.all = kRedirect;
  open();
  ASSERT_TRUE(attach(kFirst));
  finish();
  EXPECT_TRUE(std::filesystem::exists(log(kFirst, "stdout.log")));
  ::unsetenv("TMPDIR");
}

TEST_F(StreamsTest, NameADirectoryThatCannotBeMade) {
  const Descriptor file(::open((room_ / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  plan_.streams.log_directory = room_ / "file" / "logs";
  const auto opened = open_launch_directory(plan_.streams, plan_.run_id, own_umask());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().detail, HasSubstr((room_ / "file" / "logs").string()));
}

TEST_F(StreamsTest, DoNotWaitForAGrandchildBeyondTheDeadline) {
  plan_.streams.all = kTeeOut;
  plan_.streams.console_ranks = {7};
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const pid_t holder = start(kFirst, [&] {  // keeps its stdout open until we let it go
    ::close(writer.get());
    print(1, "said\n");
    char byte = 0;
    [[maybe_unused]] const ssize_t got = ::read(reader.get(), &byte, 1);
  });
  while (content_of(log(kFirst, "stdout.log")) != "said\n") {
    static_cast<void>(streams_->last_lines(kFirst, 1)());
  }
  streams_->finish(Clock::now() + 1ms);
  writer.reset();
  EXPECT_EQ(wait(holder), 0);
}

}  // namespace
}  // namespace ddprun
