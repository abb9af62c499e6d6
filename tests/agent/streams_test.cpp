// Streams with real processes, files and pipes: row 11 and the output half of row 12.

#include "agent/streams.hpp"

#include "base/file.hpp"
#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // where a fork costs ten milliseconds
#else
constexpr bool kIsSanitized = false;
#endif
constexpr int kKills = kIsSanitized ? 100 : 1000;
constexpr std::size_t kMegabyte = std::size_t{1024} * 1024;
constexpr StreamsPlan::Modes kRedirect{.out = StreamMode::kFile, .err = StreamMode::kFile};
constexpr StreamsPlan::Modes kTeeOut{.out = StreamMode::kTee, .err = StreamMode::kInherit};
constexpr StreamsPlan::Modes kTee{.out = StreamMode::kTee, .err = StreamMode::kTee};

std::string content_of(const std::filesystem::path& path) {
  auto content = read_file(path, 100 * kMegabyte);
  return content ? std::move(*content) : "no file: " + content.error().detail;
}

/// What a child may do between fork and its end: only system calls.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) ::_exit(9);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Our own stdout or stderr, exchanged for another descriptor while this lives.
class Exchanged {
 public:
  Exchanged(int number, int by) : number_(number), saved_(::fcntl(number, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(nullptr);  // what GoogleTest has said so far is for the old one
    ::dup2(by, number);
  }
  ~Exchanged() { ::dup2(saved_.get(), number_); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  int number_;
  Descriptor saved_;
};

class StreamsTest : public testing::Test {
 public:
  StreamsTest(const StreamsTest&) = delete;
  StreamsTest& operator=(const StreamsTest&) = delete;

 protected:
  StreamsTest() {
    std::filesystem::create_directory(room_);
    EXPECT_TRUE(start_log("streams_test", ""));
    plan_.run_id = "job";
    plan_.streams.log_directory = room_ / "logs";
  }
  ~StreamsTest() override { std::filesystem::remove_all(room_); }

  void open() {
    auto opened = Streams::open(plan_);
    ASSERT_TRUE(opened) << opened.error().detail;
    streams_ = std::move(*opened);
  }

  /// Starts a process that runs `body` with the worker's streams and then ends with 0.
  template <class Body>
  pid_t start(const WorkerId& worker, Body body) {
    auto attached = streams_->attach(worker);
    EXPECT_TRUE(attached);
    if (!attached) return -1;
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (attached->out) ::dup2(attached->out.get(), 1);
      if (attached->err) ::dup2(attached->err.get(), 2);
      attached->out.reset();
      attached->err.reset();
      body();
      ::_exit(0);
    }
    return pid;
  }

  static int wait(pid_t pid) {
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }

  template <class Body>
  int run(const WorkerId& worker, Body body) {
    return wait(start(worker, body));
  }

  void finish() { streams_->finish(Clock::now() + 60s, true); }

  std::filesystem::path log(const WorkerId& worker, const char* name) const {
    return streams_->directory() / ("attempt_" + std::to_string(worker.attempt)) /
           std::to_string(worker.local_rank) / name;
  }

  /// Sends our stdout or stderr into a file of the room while the result lives.
  std::unique_ptr<Exchanged> capture(int number, const char* name) {
    const Descriptor file(
        ::open((room_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    return std::make_unique<Exchanged>(number, file.get());
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_streams_test_" + std::to_string(::getpid()));
  LaunchPlan plan_;
  std::unique_ptr<Streams> streams_;
};

constexpr WorkerId kFirst{.attempt = 0, .local_rank = 0, .rank = 0};

TEST_F(StreamsTest, LayOutTheirDirectoryAsTorchrunDoes) {
  plan_.streams.all = kRedirect;
  open();
  EXPECT_EQ(streams_->directory().parent_path(), room_ / "logs");
  EXPECT_TRUE(streams_->directory().filename().string().starts_with("job_"));
  const auto attached = streams_->attach({.attempt = 2, .local_rank = 13, .rank = 29});
  ASSERT_TRUE(attached);
  EXPECT_EQ(attached->error_file, streams_->directory() / "attempt_2" / "13" / "error.json");
  EXPECT_TRUE(std::filesystem::exists(streams_->directory() / "attempt_2" / "13" / "stdout.log"));
  EXPECT_TRUE(std::filesystem::exists(streams_->directory() / "attempt_2" / "13" / "stderr.log"));
}

TEST_F(StreamsTest, KeepTheLastLineBeforeASigkillInARedirectedLog) {
  plan_.streams.all = kRedirect;
  open();
  for (int i = 0; i < kKills; ++i) {
    const WorkerId worker{.attempt = i, .local_rank = 0, .rank = 0};
    const std::string line = "last line of " + std::to_string(i) + "\n";
    run(worker, [&] {
      write_all(1, line);
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
      write_all(1, expected.back().second);
      ::kill(::getpid(), SIGKILL);
    });
  }
  finish();
  for (const auto& [worker, line] : expected) {
    ASSERT_EQ(content_of(log(worker, "stdout.log")), line);
  }
}

TEST_F(StreamsTest, NeverMixTheLinesOfTwoRanksOnTheConsole) {
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
          write_all(1, half);
          write_all(1, half + "\n");
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

TEST_F(StreamsTest, LoseNoLineOnDiskAndBlockNoWorkerWhenNobodyReadsTheConsole) {
  plan_.streams.all = kTeeOut;
  open();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  const std::string line = std::string(99, 'x') + "\n";
  constexpr std::size_t kLines = 200'000;  // 20 MB, far more than the console's queue takes
  {
    const Exchanged stdout_exchanged(1, writer.get());
    EXPECT_EQ(
        run(kFirst,
            [&] {
              std::string block;
              for (int i = 0; i < 1000; ++i)
                block += line;
              for (std::size_t i = 0; i < kLines / 1000; ++i)
                write_all(1, block);
            }),
        0);
    streams_->finish(Clock::now() + 1ms, true);  // the console is given up, the log is not
  }
  EXPECT_EQ(std::filesystem::file_size(log(kFirst, "stdout.log")), kLines * line.size());
  streams_.reset();
}

TEST_F(StreamsTest, SayHowManyLinesASlowConsoleMissed) {
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
                write_all(1, block);
            }),
        0);
    // The worker has ended; what its pipe still holds is small, and no console has been read yet.
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

TEST_F(StreamsTest, LeaveNoLineOutWhenTheConsoleIsAFile) {
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
                write_all(1, {block, kMegabyte});
            }),
        0);
    finish();
  }
  const std::size_t line_bytes = std::string_view("[default0]:\n").size();
  EXPECT_EQ(std::filesystem::file_size(room_ / "console"), kLines * line_bytes);
}

TEST_F(StreamsTest, PassStderrOnByteForByteAndRememberItsEnd) {
  open();
  {
    const auto captured = capture(2, "stderr");
    run(kFirst, [] { write_all(2, "one\ntwo\nthree, without a newline"); });
    EXPECT_EQ(streams_->last_lines(kFirst, 2), "two\nthree, without a newline");
    finish();
  }
  EXPECT_EQ(content_of(room_ / "stderr"), "one\ntwo\nthree, without a newline");
  EXPECT_EQ(streams_->log_of(kFirst), "");
}

TEST_F(StreamsTest, PassAllOfALargeStderrThroughASlowConsole) {
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
        write_all(2, block);
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

TEST_F(StreamsTest, RememberTheEndOfARedirectedStderr) {
  plan_.streams.all = kRedirect;
  open();
  run(kFirst, [] { write_all(2, "a\nb\nc\n"); });
  EXPECT_EQ(streams_->last_lines(kFirst, 2), "b\nc");
  EXPECT_EQ(streams_->log_of(kFirst), log(kFirst, "").parent_path());
}

TEST_F(StreamsTest, OutliveAWorkerThatClosesItsOutputs) {
  plan_.streams.all = kTee;
  open();
  const auto captured = capture(1, "console");
  const auto captured_too = capture(2, "stderr");
  const int status = run(kFirst, [] {
    write_all(1, "before\n");
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
        write_all(1, {block, kMegabyte});
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
                write_all(1, "line\n");
            }),
        0);
    finish();
  }
  const std::string console = content_of(room_ / "console");
  EXPECT_EQ(std::ranges::count(console, '\n'), 100);
}

TEST_F(StreamsTest, ShowOnlyTheChosenRanks) {
  plan_.streams.all = kTeeOut;
  plan_.streams.console_ranks = {1};
  open();
  constexpr WorkerId kSecond{.attempt = 0, .local_rank = 1, .rank = 1};
  {
    const auto captured = capture(1, "console");
    const auto captured_too = capture(2, "stderr");
    for (const WorkerId& worker : {kFirst, kSecond}) {
      run(worker, [] {
        write_all(1, "out\n");
        write_all(2, "err\n");
      });
    }
    finish();
  }
  EXPECT_EQ(content_of(room_ / "console"), "[default1]:out\n");
  EXPECT_EQ(content_of(room_ / "stderr"), "err\n");
  EXPECT_EQ(content_of(log(kFirst, "stdout.log")), "out\n");
  EXPECT_EQ(streams_->last_lines(kFirst, 5), "err");
}

TEST_F(StreamsTest, SetFilteredLinesAsideForTheWholeAttempt) {
  plan_.streams.all = kTeeOut;
  plan_.streams.duplicate_out = {"loss"};
  plan_.streams.prefix_template = "${rank}|";
  open();
  {
    const auto captured = capture(1, "console");
    run(kFirst, [] { write_all(1, "loss 1\nother\n"); });
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
  const auto attached = streams_->attach(kFirst);
  ASSERT_TRUE(attached);
  EXPECT_FALSE(attached->out);
  EXPECT_EQ(attached->error_file, "");
  EXPECT_EQ(streams_->directory(), "");
  EXPECT_FALSE(std::filesystem::exists(room_ / "logs"));
}

TEST_F(StreamsTest, RemoveTheirOwnDirectoryAfterSuccessOnlyIfItHoldsNoLog) {
  plan_.streams.log_directory.reset();
  ASSERT_EQ(::setenv("TMPDIR", room_.c_str(), 1), 0);
  open();
  const auto without_logs = streams_->directory();
  EXPECT_TRUE(without_logs.parent_path().filename().string().starts_with("torchelastic_"));
  ASSERT_TRUE(streams_->attach(kFirst));
  finish();
  EXPECT_FALSE(std::filesystem::exists(without_logs.parent_path()));

  plan_.streams.all = kRedirect;
  open();
  ASSERT_TRUE(streams_->attach(kFirst));
  finish();
  EXPECT_TRUE(std::filesystem::exists(log(kFirst, "stdout.log")));
  ::unsetenv("TMPDIR");
}

TEST_F(StreamsTest, NameADirectoryThatCannotBeMade) {
  const Descriptor file(::open((room_ / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  plan_.streams.log_directory = room_ / "file" / "logs";
  const auto opened = Streams::open(plan_);
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
    write_all(1, "said\n");
    char byte = 0;
    static_cast<void>(::read(reader.get(), &byte, 1));
  });
  while (content_of(log(kFirst, "stdout.log")) != "said\n") {
    static_cast<void>(streams_->last_lines(kFirst, 1));
  }
  streams_->finish(Clock::now() + 1ms, true);
  writer.reset();
  EXPECT_EQ(wait(holder), 0);
}

}  // namespace
}  // namespace ddprun
