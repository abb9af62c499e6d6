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
#include <thread>
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
    order.streams->directory = directory_;
    order.streams->out.log = log_;
    order.request.command = {"/bin/sh", "-c", "echo runs >" + ran_.string()};
    return order;
  }

  /// Lets the open of the FIFO go on.
  Descriptor respond() {
    return Descriptor(::open(log_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  /// The thread has begun with an order(), and opens the FIFO now or next.
  void await_the_disk() const {
    while (!std::filesystem::exists(directory_)) {
      std::this_thread::yield();
    }
  }

  /// Ends the thread once it has performed what was ordered.
  void finish() {
    const auto last = answer_to(WorkerStarter::kNoSeries, order_of("/bin/true"));
    ASSERT_TRUE(last);
    ::waitpid(last->pid, nullptr, 0);
  }

  static StartOrder order_of(std::string program) {
    StartOrder order;
    order.request.command = {std::move(program)};
    return order;
  }

  Result<Process> answer_to(WorkerStarter::Series series, Result<StartOrder> order) {
    std::optional<Result<Process>> answer;
    starter_->begin(
        series, std::move(order), [&](Result<Process> process) { answer = std::move(process); });
    while (!answer) {
      context_.run_one();
    }
    return *std::move(answer);
  }

  std::filesystem::path room_ = std::filesystem::temp_directory_path() /
                                ("ddprun_worker_starter_test_" + std::to_string(::getpid()));
  std::filesystem::path log_ = room_ / "log";
  std::filesystem::path directory_ = room_ / "directory";
  std::filesystem::path ran_ = room_ / "ran";
  asio::io_context context_{1};
  std::unique_ptr<WorkerStarter> starter_ = WorkerStarter::open(context_).value();
  TaskScope tasks_{context_.get_executor()};
};

TEST_F(WorkerStarterTest, HandsOverAProcessWhoseLogWaitedForTheDisk) {
  std::optional<Result<Process>> started;
  starter_->begin(WorkerStarter::kNoSeries, order(), [&](Result<Process> process) {
    started = std::move(process);
  });
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
  const auto start = starter_->begin(
      WorkerStarter::kNoSeries, order(), [&](const Result<Process>&) { is_answered = true; });
  EXPECT_TRUE(starter_->cancel(start));
  EXPECT_FALSE(starter_->is_busy());
  EXPECT_FALSE(starter_->cancel(start));
  const Descriptor reader = respond();
  finish();
  EXPECT_FALSE(is_answered);
  EXPECT_FALSE(std::filesystem::exists(ran_));
}

TEST_F(WorkerStarterTest, SaysWhyAProgramCannotBeStarted) {
  const auto started = answer_to(WorkerStarter::kNoSeries, order_of(room_ / "missing"));
  ASSERT_FALSE(started);
  EXPECT_TRUE(started.error().is(Errc::kNotFound));
}

TEST_F(WorkerStarterTest, ADiskThatHoldsUpACancelledStartHoldsUpNoLaterOne) {
  bool is_answered = false;
  const auto held_up = starter_->begin(
      WorkerStarter::kNoSeries, order(), [&](const Result<Process>&) { is_answered = true; });
  const auto behind = starter_->begin(
      WorkerStarter::kNoSeries, order(), [&](const Result<Process>&) { is_answered = true; });
  await_the_disk();
  EXPECT_TRUE(starter_->cancel(held_up));
  EXPECT_TRUE(starter_->cancel(behind));
  finish();  // by another thread
  const Descriptor reader = respond();
  finish();
  EXPECT_FALSE(is_answered);
  EXPECT_FALSE(std::filesystem::exists(ran_));
}

TEST_F(WorkerStarterTest, PerformsNoOrderOfASeriesAfterOneThatFailed) {
  constexpr WorkerStarter::Series kFirst = 1;
  constexpr WorkerStarter::Series kSecond = 2;
  const auto failed = answer_to(kFirst, make_error(Errc::kInvalidArgument, "no such place"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().detail, "no such place");
  bool is_answered = false;
  const auto start =
      starter_->begin(kFirst, order(), [&](const Result<Process>&) { is_answered = true; });
  finish();  // what is no part of it goes on, and so does the next series
  const auto started = answer_to(kSecond, order_of("/bin/true"));
  ASSERT_TRUE(started);
  ::waitpid(started->pid, nullptr, 0);
  EXPECT_TRUE(starter_->is_busy());
  EXPECT_TRUE(starter_->cancel(start));
  EXPECT_FALSE(starter_->is_busy());
  EXPECT_FALSE(is_answered);
  EXPECT_FALSE(std::filesystem::exists(ran_));
}

}  // namespace
}  // namespace ddprun
