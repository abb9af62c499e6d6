#include "agent/core/hang_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<PythonFrame> collective(const std::string& name, int line) {
  return {
      {.file = "/l/site-packages/torch/distributed/distributed_c10d.py",
       .line = 9,
       .function = name},
      {.file = "/w/train.py", .line = line, .function = "main"}};
}

std::vector<HungWorker> workers_in(std::vector<std::vector<PythonFrame>> all) {
  std::vector<HungWorker> workers;
  for (auto& frames : all) {
    HungWorker& worker = workers.emplace_back();
    worker.local_rank = static_cast<int>(workers.size()) - 1;
    worker.rank = worker.local_rank;
    worker.pid = 800 + worker.rank;
    worker.step = 120;
    worker.frames = std::move(frames);
  }
  return workers;
}

const std::vector<PythonFrame> kReduce = collective("all_reduce", 31);
const std::vector<PythonFrame> kLoad = {{.file = "/w/train.py", .line = 14, .function = "load"}};

TEST(HangReport, NamesTheRankThatDoesNotWait) {
  HangReport report;
  report.title = "train.py";
  report.host = "n0";
  report.silent_for = 61'200ms;
  report.slowest = 80ms;
  report.workers = workers_in({kReduce, kReduce, kLoad, kReduce});
  report.workers[2].wait_channel = "wait_for_partner";
  report.stacks = "/tmp/x/hang.txt";
  EXPECT_EQ(
      hang_paragraph(report),
      "ddprun: train.py hangs on n0: no worker of this node has made a step for 61.2 s (the "
      "slowest of the last took 0.08 s); attempt 0\n"
      "  rank 2 (local rank 2, pid 802) is in load (train.py:14), at step 120; asleep in the "
      "kernel "
      "(wait_for_partner)\n"
      "    | /w/train.py, line 14, in load\n"
      "  ranks 0, 1, 3 wait in all_reduce (train.py:31), at step 120\n"
      "  the stacks of all threads: /tmp/x/hang.txt\n"
      "  next: ddprun waits (--on-hang restart would restart the job)\n");
  report.restarts = true;
  EXPECT_THAT(
      hang_paragraph(report), EndsWith("  next: rank 2 is ended, so that the job restarts\n"));
  report.has_restarts = false;
  EXPECT_THAT(
      hang_paragraph(report),
      EndsWith("rank 2 is ended, and so the job is (--max-restarts would allow a restart)\n"));
}

TEST(HangReport, NamesTheRankThatWaitsElsewhereThanMost) {
  EXPECT_THAT(
      culprits_of(workers_in({kReduce, collective("barrier", 33), kReduce})), ElementsAre(1));
  EXPECT_THAT(
      culprits_of(workers_in({kReduce, collective("all_reduce", 35), kReduce})), ElementsAre(1));
  auto ahead = workers_in({kReduce, kReduce, kReduce});
  ahead[2].step = 121;
  EXPECT_THAT(culprits_of(ahead), ElementsAre(2));
}

TEST(HangReport, NamesTheRankThatIsStoppedOrHasEnded) {
  auto workers = workers_in({kReduce, {}, kReduce});
  workers[1].state = 'T';
  EXPECT_THAT(culprits_of(workers), ElementsAre(1));
  EXPECT_THAT(workers[1].activity(), HasSubstr("is stopped by a signal"));
  workers[1].state = 'D';
  workers[1].wait_channel = "nfs_wait";
  EXPECT_THAT(workers[1].activity(), HasSubstr("inside the kernel (nfs_wait)"));
  EXPECT_THAT(culprits_of(workers), ElementsAre(1));
  workers[1].pid = 0;
  EXPECT_EQ(workers[1].activity(), "has exited with status 0");
  EXPECT_THAT(culprits_of(workers), ElementsAre(1));
}

// As ddptrain's, which is no Python.
TEST(HangReport, TellsWorkersWithoutAStackApartByWhatTheyWaitForInTheKernel) {
  auto workers = workers_in({{}, {}, {}});
  for (HungWorker& worker : workers) {
    worker.wait_channel = "futex_do_wait";
  }
  EXPECT_THAT(culprits_of(workers), IsEmpty());
  workers[2].state = 'T';
  EXPECT_THAT(culprits_of(workers), ElementsAre(2));
  workers[2].state = 'S';
  workers[1].wait_channel = "wait_for_partner";
  EXPECT_THAT(culprits_of(workers), ElementsAre(1));
  EXPECT_EQ(workers[1].activity(), "is asleep in the kernel (wait_for_partner); no stack is known");
}

TEST(HangReport, NamesNobodyIfAllDoTheSame) {
  EXPECT_THAT(culprits_of(workers_in({kReduce, kReduce})), IsEmpty());
  EXPECT_THAT(culprits_of(workers_in({kLoad, kLoad})), IsEmpty());
  EXPECT_THAT(culprits_of(workers_in({kReduce, collective("barrier", 33)})), IsEmpty());
  EXPECT_THAT(culprits_of(workers_in({kLoad})), ElementsAre(0));
}

TEST(HangReport, EndsTheCulpritsOrAllIfNoneOfThemRuns) {
  HangReport report;
  report.restarts = true;
  report.workers = workers_in({kReduce, kLoad, kReduce});
  EXPECT_THAT(to_be_ended(report), ElementsAre(&report.workers[1]));
  report.workers[1].pid = 0;
  EXPECT_THAT(to_be_ended(report), ElementsAre(&report.workers[0], &report.workers[2]));
  EXPECT_THAT(
      hang_paragraph(report), EndsWith("  next: ranks 0, 2 are ended, so that the job restarts\n"));
  report.has_others = true;
  report.workers = workers_in({kReduce, kReduce});
  EXPECT_THAT(to_be_ended(report), IsEmpty());
}

TEST(HangReport, LooksForTheCulpritOnAnotherNodeIfAllOfThisOneWait) {
  HangReport report;
  report.has_others = true;
  report.workers = workers_in({kReduce, kReduce});
  EXPECT_TRUE(report.is_elsewhere());
  EXPECT_THAT(hang_paragraph(report), EndsWith("or all ranks wait for each other\n"));
  report.workers = workers_in({kReduce, kLoad});
  EXPECT_FALSE(report.is_elsewhere());
  report.workers = workers_in({kLoad, kLoad});  // as with NCCL: loss.item()
  EXPECT_TRUE(report.is_elsewhere());
}

TEST(HangReport, SaysWhetherSomebodyDebugsAWorker) {
  HangReport report;
  report.workers = workers_in({kReduce, kLoad});
  EXPECT_FALSE(report.is_debugged());
  report.workers[0].state = 't';
  EXPECT_TRUE(report.is_debugged());
  report.workers =
      workers_in({kReduce, {{.file = "/usr/lib/python3.11/pdb.py", .line = 1, .function = "f"}}});
  EXPECT_TRUE(report.is_debugged());
}

TEST(HangReport, SaysWhetherAWorkerThatDoesNotWaitComputes) {
  HangReport report;
  report.workers = workers_in({kReduce, kReduce});
  report.workers[0].computes = true;  // Gloo may spin
  EXPECT_FALSE(report.computes(false));
  report.workers = workers_in({kReduce, kLoad});
  report.workers[1].computes = true;
  EXPECT_TRUE(report.computes(true));
  report.workers = workers_in({kLoad, kLoad});
  report.workers[1].computes = true;
  EXPECT_TRUE(report.computes(false));
  EXPECT_FALSE(report.computes(true));
  report.workers[1].moves = true;
  EXPECT_TRUE(report.computes(true));
  report.workers = workers_in({kReduce, kLoad});
  report.workers[1].wakes = true;  // as in a loop of short sleeps
  EXPECT_TRUE(report.computes(true));
}

}  // namespace
}  // namespace ddprun
