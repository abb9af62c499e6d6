#include "launcher/ctl/status/core/status_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;

using Node = JobStatus::Node;
using Worker = JobStatus::Worker;

JobStatus::Node node_of(std::string host, std::string address) {
  JobStatus::Node node;
  node.host = std::move(host);
  node.address = std::move(address);
  return node;
}

JobStatus running_job() {
  JobStatus status;
  status.job = "run7";
  status.version = "0.1.0";
  status.state = JobStatus::State::kRunning;
  status.term = 1;
  status.round = 5;
  status.attempt = 2;
  status.restarts_used = 1;
  status.restarts_max = 3;
  status.nodes_min = 2;
  status.nodes_max = 4;
  status.lease = 3s;
  status.reason = "rank 1 on n1 exited with status 3";
  Node leader = node_of("n0", "10.0.0.1:29400");
  leader.state = Node::State::kRunning;
  leader.is_leader = true;
  leader.group_rank = 0;
  leader.workers = {
      {.rank = 0, .local_rank = 0, .pid = 812},
      {.rank = 1, .local_rank = 1, .pid = 813, .state = Worker::State::kSucceeded}};
  Node spare = node_of("n2", "10.0.0.3:29400");
  spare.state = Node::State::kSpare;
  spare.heartbeat_age = 240ms;
  status.nodes = {leader, spare};
  return status;
}

TEST(StatusText, IsThreeLinesAndOneForEachNode) {
  EXPECT_EQ(
      status_text(running_job()),
      "job run7 runs: round 5, attempt 2, 1 of 3 restarts used\n"
      "leader n0 (10.0.0.1:29400), term 1, lease 3 s, ddprun 0.1.0\n"
      "1 of 2 to 4 nodes, 1 spare\n"
      "the round before ended: rank 1 on n1 exited with status 3\n"
      "\n"
      " rank  node                     state      last heartbeat  workers (rank:pid)\n"
      "    0  n0                       running                 -  0:812, 1:813 succeeded\n"
      "    -  n2                       spare               0.2 s  -\n");
}

TEST(StatusText, HasAColumnOfStepsIfWorkersCountThem) {
  JobStatus status = running_job();
  Worker& first = status.nodes[0].workers[0];
  first.step = 1'203;
  first.step_time = 80ms;
  first.step_age = 2500ms;
  first.busy_with = "saving\n";
  Worker& second = status.nodes[0].workers[1];
  second.step = 1'204;
  second.step_time = 40ms;
  second.step_age = 30ms;
  EXPECT_THAT(
      status_text(status),
      EndsWith(
          " rank  node                     state      last heartbeat           step  steps/s  last "
          "step  workers (rank:pid)\n"
          "    0  n0                       running                 -      1203-1204     12.5      "
          "0.0 s  0:812 saving?, 1:813 succeeded\n"
          "    -  n2                       spare               0.2 s              -        -       "
          "   -  -\n"));
}

TEST(StatusText, NamesNodesThatAreNotFit) {
  JobStatus status = running_job();
  status.nodes.back().unfit = "its check exited with status 1: GPU 3";
  EXPECT_THAT(
      status_text(status),
      EndsWith(
          "spare               0.2 s  -\nnot fit: n2: its check exited with status 1: GPU 3\n"));
}

TEST(StatusText, TellsHowTheJobEnded) {
  JobStatus status = running_job();
  status.state = JobStatus::State::kEnded;
  status.exit_status = 137;
  EXPECT_THAT(status_text(status), HasSubstr("job run7 has ended with status 137: round 5"));
}

TEST(StatusText, ShowsNoControlCharactersToTheTerminal) {
  JobStatus status = running_job();
  status.job = "evil\x1b[2J";
  status.nodes[1].host = "n2\a";
  EXPECT_THAT(status_text(status), HasSubstr("evil?[2J"));
  EXPECT_THAT(status_text(status), HasSubstr("n2? "));
}

}  // namespace
}  // namespace ddprun
