#include "rendezvous/core/job_status.hpp"

#include "rendezvous/core/rendezvous_node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::SizeIs;

using Node = JobStatus::Node;
using Worker = JobStatus::Worker;

RendezvousPolicy policy_of_leader() {
  RendezvousPolicy policy;
  policy.job = "run7";
  policy.node.incarnation = Incarnation{1};
  policy.node.host = "n0";
  policy.node.listens = {.host = "", .port = 29400};
  policy.node.workers = 2;
  policy.nodes = NodeRange(2, 2);
  policy.max_restarts = 3;
  policy.endpoints = {Endpoint{.host = "n0", .port = 29400}};
  policy.lease = 3s;
  return policy;
}

/// A leader of two nodes with two workers each, and a spare.
class LeaderOfTwo : public testing::Test {
 protected:
  LeaderOfTwo() { tell(RendezvousNode::Begin{}); }

  void tell(const RendezvousNode::Event& event) { leader_.apply(event, now_, out_); }
  void say(Link link, Message message) {
    tell(RendezvousNode::Received{.link = link, .message = std::move(message)});
  }

  void join(Link link, std::uint64_t incarnation, const std::string& host) {
    Hello hello;
    hello.job = "run7";
    hello.node.incarnation = Incarnation{incarnation};
    hello.node.host = host;
    hello.node.listens = {.host = "10.0.0." + std::to_string(incarnation), .port = 5};
    hello.node.workers = 2;
    hello.nodes_min = 2;
    hello.nodes_max = 2;
    hello.max_restarts = 3;
    hello.lease = 3s;
    say(link, hello);
    say(link, WorkerNews());  // none runs
    say(link, Heartbeat{.number = 1, .heard = 0});
    tell(RendezvousNode::LifelineOpened{
        .node = Incarnation{incarnation}, .leadership = {.term = 1, .leader = Incarnation{1}}});
  }

  /// The newest offered round.
  RoundId offered() const {
    RoundId round;
    for (const Effect& effect : out_) {
      const auto* const sent = std::get_if<effects::Send>(&effect);
      const auto* const offer = sent ? std::get_if<OfferRound>(&sent->message) : nullptr;
      if (offer != nullptr) round = offer->round;
    }
    return round;
  }

  void run_workers(Link link) {
    now_ += announced_within(3s);
    tell(RendezvousNode::Tick{});
    say(link, Acknowledge{.round = offered()});
    tell(RendezvousNode::Workers{news(WorkersState::kRunning, {11, 12})});
    say(link, news(WorkersState::kRunning, {21, 0}));
  }

  WorkerNews news(WorkersState state, std::vector<int> pids) const {
    WorkerNews news;
    news.round = offered();
    news.state = state;
    news.pids = std::move(pids);
    return news;
  }

  JobStatus status() const {
    return job_status(leader_.policy(), *leader_.coordinator(), "1.2", own_steps_, now_ + 250ms);
  }

  TimePoint now_ = TimePoint() + 1000s;
  Effects out_;
  std::vector<StepReport> own_steps_;
  RendezvousNode leader_{policy_of_leader()};
};

TEST_F(LeaderOfTwo, WaitsForNodes) {
  const JobStatus waiting = status();
  EXPECT_EQ(waiting.state, JobStatus::State::kGathering);
  EXPECT_EQ(waiting.term, 1);
  EXPECT_EQ(waiting.round, 0);
  EXPECT_EQ(waiting.job, "run7");
  EXPECT_EQ(waiting.version, "1.2");
  EXPECT_EQ(waiting.nodes_min, 2);
  EXPECT_EQ(waiting.restarts_max, 3);
  EXPECT_EQ(waiting.lease, 3s);
  ASSERT_THAT(waiting.nodes, SizeIs(1));
  EXPECT_EQ(waiting.nodes[0].state, Node::State::kWaiting);
  EXPECT_TRUE(waiting.nodes[0].is_leader);
  EXPECT_EQ(waiting.nodes[0].address, "n0:29400");
  EXPECT_EQ(waiting.nodes[0].heartbeat_age, std::nullopt);
}

TEST_F(LeaderOfTwo, NamesNodesAndWorkersOfTheRoundThatRuns) {
  join(Link{2}, 7, "n1");
  run_workers(Link{2});
  join(Link{4}, 9, "n2");
  const JobStatus running = status();
  EXPECT_EQ(running.state, JobStatus::State::kRunning);
  EXPECT_EQ(running.round, 1);
  ASSERT_THAT(running.nodes, SizeIs(3));
  const auto& [leader, other, spare] =
      std::tie(running.nodes[0], running.nodes[1], running.nodes[2]);
  EXPECT_EQ(leader.group_rank, 0);
  EXPECT_EQ(leader.state, Node::State::kRunning);
  EXPECT_EQ(other.group_rank, 1);
  EXPECT_EQ(other.host, "n1");
  EXPECT_EQ(other.address, "10.0.0.7:5");
  EXPECT_EQ(other.incarnation, 7U);
  EXPECT_EQ(other.heartbeat_age, 250ms);
  EXPECT_THAT(
      other.workers,
      ElementsAre(
          Worker{.rank = 2, .local_rank = 0, .pid = 21, .state = Worker::State::kRunning},
          Worker{.rank = 3, .local_rank = 1, .pid = 0, .state = Worker::State::kSucceeded}));
  EXPECT_EQ(spare.state, Node::State::kSpare);
  EXPECT_EQ(spare.group_rank, std::nullopt);
}

TEST_F(LeaderOfTwo, TellsHowFarTheWorkersOfEachNodeAre) {
  join(Link{2}, 7, "n1");
  run_workers(Link{2});
  own_steps_ = {{.local_rank = 1, .step = 8, .step_time = 100ms, .age = 40ms}};
  Heartbeat heartbeat{.number = 2, .heard = 0};
  heartbeat.steps = {{.local_rank = 0, .step = 7, .age = 2s, .busy_with = "saving"}};
  say(Link{2}, heartbeat);
  say(Link{2}, Heartbeat{.number = 3, .heard = 0});  // has nothing new to tell
  const JobStatus seen = status();
  EXPECT_EQ(seen.nodes[0].workers[0].step, std::nullopt);
  EXPECT_EQ(seen.nodes[0].workers[1].step, 8);
  EXPECT_EQ(seen.nodes[0].workers[1].step_time, 100ms);
  EXPECT_EQ(seen.nodes[0].workers[1].step_age, 40ms);
  EXPECT_EQ(seen.nodes[1].workers[0].step, 7);
  EXPECT_EQ(seen.nodes[1].workers[0].step_time, std::nullopt);
  EXPECT_EQ(seen.nodes[1].workers[0].busy_with, "saving");
}

TEST_F(LeaderOfTwo, TellsOfANodeThatItHasLostSightOf) {
  join(Link{2}, 7, "n1");
  run_workers(Link{2});
  tell(RendezvousNode::Closed{.link = Link{2}, .why = {}});
  const JobStatus seen = status();
  EXPECT_EQ(seen.state, JobStatus::State::kRunning);  // it may come back
  ASSERT_THAT(seen.nodes, SizeIs(2));
  EXPECT_EQ(seen.nodes[1].state, Node::State::kSuspected);
}

TEST_F(LeaderOfTwo, TellsOfTheWorkerThatFailed) {
  join(Link{2}, 7, "n1");
  run_workers(Link{2});
  WorkerNews failed = news(WorkersState::kFailed, {});
  failed.failure = FailureNews{};
  failed.failure->rank = 3;
  failed.failure->local_rank = 1;
  failed.failure->pid = 22;
  failed.failure->exit_status = 5;
  say(Link{2}, failed);
  const JobStatus seen = status();
  EXPECT_EQ(seen.state, JobStatus::State::kStopping);
  EXPECT_EQ(seen.nodes[1].state, Node::State::kFailed);
  EXPECT_THAT(
      seen.nodes[1].workers,
      ElementsAre(Worker{.rank = 3, .local_rank = 1, .pid = 22, .state = Worker::State::kFailed}));
}

// It reported that it waits for nodes, although all of them had joined.
TEST_F(LeaderOfTwo, TellsOfAPauseBeforeTheNextAttempt) {
  join(Link{2}, 7, "n1");
  run_workers(Link{2});
  WorkerNews failed = news(WorkersState::kFailed, {});
  failed.failure = FailureNews{};
  failed.failure->rank = 3;
  failed.failure->needs_pause = true;
  say(Link{2}, failed);
  const WorkerNews stopped = news(WorkersState::kStopped, {});
  tell(RendezvousNode::Workers{stopped});
  say(Link{2}, stopped);
  EXPECT_EQ(status().state, JobStatus::State::kPausing);
  now_ += leader_.policy().start_pause;
  EXPECT_EQ(status().state, JobStatus::State::kGathering);
}

}  // namespace
}  // namespace ddprun
