#pragma once

// The fixture of tests of the workers' streams: a directory for files, streams of real processes,
// and our own stdout and stderr replaced by something that a test can read.

#include "agent/console.hpp"
#include "agent/streams.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;  // where a fork costs ten milliseconds
#else
inline constexpr bool kIsSanitized = false;
#endif
inline constexpr std::size_t kMegabyte = std::size_t{1024} * 1024;
inline constexpr StreamsPlan::Modes kRedirect{.out = StreamMode::kFile, .err = StreamMode::kFile};
inline constexpr StreamsPlan::Modes kTeeOut{.out = StreamMode::kTee, .err = StreamMode::kInherit};
inline constexpr StreamsPlan::Modes kTee{.out = StreamMode::kTee, .err = StreamMode::kTee};

inline std::string content_of(const std::filesystem::path& path) {
  auto content = read_file(path, 100 * kMegabyte);
  return content ? std::move(*content) : "no file: " + content.error().detail;
}

/// What a child may do between fork and its end: only system calls.
inline void print(int descriptor, std::string_view text) {
  if (!write_all(descriptor, text)) ::_exit(9);
}

/// Replaces our own stdout or stderr by another descriptor while this lives.
class Exchanged {
 public:
  Exchanged(int number, int by) : number_(number), saved_(::fcntl(number, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(nullptr);  // GoogleTest's output so far belongs to the old one
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
    auto directory = open_launch_directory(plan_.streams, plan_.run_id, own_umask());
    ASSERT_TRUE(directory) << directory.error().detail;
    auto opened = Streams::open(plan_, *std::move(directory), *consoles_);
    ASSERT_TRUE(opened) << opened.error().detail;
    streams_ = std::move(*opened);
  }

  /// The streams of a new worker.
  Result<WorkerStreams> attach(const WorkerId& worker) {
    auto order = streams_->order(worker);
    if (!order) return order.error();
    return open_streams(*std::move(order));
  }

  /// Starts a process that runs `body` with the worker's streams and then ends with 0.
  template <class Body>
  pid_t start(const WorkerId& worker, Body body) {
    auto attached = attach(worker);
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

  void finish() {
    streams_->finish(Clock::now() + 60s);
    EXPECT_THAT(consoles_->flush(60s), testing::IsEmpty());
    remove_launch_directory(streams_->removable(true));
  }

  std::filesystem::path log(const WorkerId& worker, const char* name) const {
    return streams_->directory() / ("attempt_" + std::to_string(worker.attempt)) /
           std::to_string(worker.local_rank) / name;
  }

  /// Redirects our stdout or stderr to a file of the directory while the result lives.
  std::unique_ptr<Exchanged> capture(int number, const char* name) {
    const Descriptor file(
        ::open((room_ / name).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    return std::make_unique<Exchanged>(number, file.get());
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_streams_test_" + std::to_string(::getpid()));
  LaunchPlan plan_;
  std::unique_ptr<Consoles> consoles_ = std::make_unique<Consoles>();
  std::unique_ptr<Streams> streams_;
};

inline constexpr WorkerId kFirst{.attempt = 0, .local_rank = 0, .rank = 0};

}  // namespace ddprun
