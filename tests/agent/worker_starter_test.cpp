// The thread that starts workers, with a log that cannot be opened: a FIFO without a reader, whose
// open waits as that on a disk that does not respond.

#include "agent/worker_starter.hpp"

#include "base/task_scope.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

class WorkerStarterTest : public testing::Test {
 public:
  WorkerStarterTest(const WorkerStarterTest&) = delete;
  WorkerStarterTest& operator=(const WorkerStarterTest&) = delete;

 protected:
  WorkerStarterTest() {
    std::filesystem::create_directory(room_);
    EXPECT_EQ(::mkfifo(log_.c_str(), 0600), 0);
    tasks_.spawn(starter_->serve());
  }
  ~WorkerStarterTest() override {
    tasks_.cancel();
    context_.run();
    std::filesystem::remove_all(room_);
  }

  /// A shell that writes a file, with the FIFO for its stdout.
  StartOrder order() {
    StartOrder order;
    order.streams.emplace();
    order.streams->pump = StreamPump::create(std::make_shared<std::atomic<bool>>()).value();
    order.streams->out.log = log_;
    order.request.command = {"/bin/sh", "-c", "echo runs >" + ran_.string()};
    return order;
  }

  /// Lets the open of the FIFO go on.
  Descriptor respond() {
    return Descriptor(::open(log_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  /// Ends the thread once it has performed what was ordered.
  void finish() {
    std::optional<Result<Process>> last;
    StartOrder order;
    order.request.command = {"/bin/true"};
    starter_->begin(std::move(order), [&](Result<Process> process) { last = std::move(process); });
    while (!last) {
      context_.run_one();
    }
    ASSERT_TRUE(*last);
    ::waitpid((*last)->pid, nullptr, 0);
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_worker_starter_test_" + std::to_string(::getpid()));
  std::filesystem::path log_ = room_ / "log";
  std::filesystem::path ran_ = room_ / "ran";
  asio::io_context context_{1};
  std::unique_ptr<WorkerStarter> starter_ = WorkerStarter::open(context_).value();
  TaskScope tasks_{context_.get_executor()};
};

TEST_F(WorkerStarterTest, HandsOverAProcessWhoseLogWaitedForTheDisk) {
  std::optional<Result<Process>> started;
  starter_->begin(order(), [&](Result<Process> process) { started = std::move(process); });
  context_.poll();
  EXPECT_TRUE(starter_->is_busy());
  EXPECT_FALSE(started);
  const Descriptor reader = respond();
  while (!started) {
    context_.run_one();
  }
  EXPECT_FALSE(starter_->is_busy());
  ASSERT_TRUE(*started);
  int status = -1;
  EXPECT_EQ(::waitpid((*started)->pid, &status, 0), (*started)->pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(ran_));
}

TEST_F(WorkerStarterTest, MakesNoProcessOnceAStartThatWaitsForTheDiskIsCancelled) {
  bool is_answered = false;
  const auto start = starter_->begin(order(), [&](const Result<Process>&) { is_answered = true; });
  EXPECT_TRUE(starter_->cancel(start));
  EXPECT_FALSE(starter_->is_busy());
  EXPECT_FALSE(starter_->cancel(start));
  const Descriptor reader = respond();
  finish();
  EXPECT_FALSE(is_answered);
  EXPECT_FALSE(std::filesystem::exists(ran_));
}

TEST_F(WorkerStarterTest, SaysWhyAProgramCannotBeStarted) {
  std::optional<Result<Process>> started;
  StartOrder order;
  order.request.command = {(room_ / "missing").string()};
  starter_->begin(std::move(order), [&](Result<Process> process) { started = std::move(process); });
  while (!started) {
    context_.run_one();
  }
  ASSERT_FALSE(*started);
  EXPECT_TRUE(started->error().is(Errc::kNotFound));
}

}  // namespace
}  // namespace ddprun
