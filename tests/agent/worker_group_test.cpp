// The processes of a node's workers, with real ones that die at the worst moment.

#include "agent/worker_group.hpp"

#include "agent/console.hpp"
#include "agent/streams.hpp"
#include "base/task_scope.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// Waits until a child has ended, and leaves it to be reaped.
void await_a_death() {
  constexpr auto kPatience =
      std::chrono::seconds(30);  // for a broken build to fail and not to hang
  const auto until = std::chrono::steady_clock::now() + kPatience;
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0) {
    ASSERT_EQ(errno, ECHILD);
    ASSERT_LT(std::chrono::steady_clock::now(), until) << "it was reaped already";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it has not been made yet
  }
}

LaunchPlan plan_of_shell(std::string script) {
  LaunchPlan plan;
  plan.workers = 1;
  plan.streams.no_files = true;
  plan.command.program = "/bin/sh";
  plan.command.arguments = {"-c", std::move(script)};
  return plan;
}

/// A group, and what it works with.
struct Fixture {
  explicit Fixture(LaunchPlan what) : plan(std::move(what)) { tasks.spawn(starter->serve()); }

  void end() {
    tasks.cancel();
    context.run();
  }

  const LaunchPlan plan;
  asio::io_context context{1};
  Consoles consoles;
  std::unique_ptr<Streams> streams = Streams::open(plan, LaunchDirectory{}, consoles).value();
  std::unique_ptr<WorkerStarter> starter = WorkerStarter::open(context).value();
  TaskScope tasks{context.get_executor()};
  WorkerGroup group{
      context, {.plan = plan, .streams = *streams, .starter = *starter, .tasks = tasks}, {}};
};

TEST(WorkerGroup, ADeathWhileTheNextRoundBeginsIsNotTakenForThatOfAnOrphan) {
  Fixture node(plan_of_shell("kill -KILL $$"));
  WorkerGroup& group = node.group;

  constexpr int kRounds = 3;
  int started = 0;
  int ended = 0;
  const auto start = [&] {
    WorkerPlace place;
    place.round.progress.attempt = started;
    group.begin_round({});
    group.start(std::move(place));
  };
  group.set_callbacks(
      {.started =
           [&](int, const Result<pid_t>& pid) {
             ASSERT_TRUE(pid) << pid.error().detail;
             ++started;
             await_a_death();
           },
       .ended =
           [&](int, pid_t, ProcessEnd end, bool) {
             EXPECT_EQ(end.signal, SIGKILL);
             if (++ended == kRounds) return;
             start();
             await_a_death();  // of a process that the group has not been told of yet
           },
       .alone = [] {}});
  start();
  while (started < kRounds) {
    node.context.run_one();
  }
  group.reap();
  EXPECT_EQ(ended, kRounds);
  node.end();
}

TEST(WorkerGroup, ASignalThatComesBeforeTheGroupKnowsThatAWorkerRunsIsPassedOnToIt) {
  const std::string path = testing::TempDir() + "worker_group_test";
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Descriptor fifo(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  Fixture node(
      plan_of_shell("trap 'exit 7' USR1; echo > " + path + "; while :; do sleep 0.01; done"));
  WorkerGroup& group = node.group;
  std::optional<ProcessEnd> ended;
  group.set_callbacks(
      {.started = [](int, const Result<pid_t>& pid) { ASSERT_TRUE(pid) << pid.error().detail; },
       .ended = [&](int, pid_t, ProcessEnd end, bool) { ended = end; },
       .alone = [] {}});
  group.begin_round({});
  group.start({});
  char note = 0;
  ASSERT_EQ(::read(fifo.get(), &note, 1), 1);  // it has its handler
  group.pass_on(SIGUSR1);
  const auto until = Clock::now() + std::chrono::seconds(30);  // for a broken build to fail
  while (!ended && Clock::now() < until) {
    node.context.run_one_for(std::chrono::milliseconds(100));
    group.reap();
  }
  ASSERT_TRUE(ended) << "it did not get the signal";
  EXPECT_EQ(ended->code, 7);
  node.end();
}

}  // namespace
}  // namespace ddprun
