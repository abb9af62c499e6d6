#include "agent/core/round_end.hpp"

#include "base/exit_status.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

FailureNews failure_of_rank(int rank, int exit_status = 3) {
  FailureNews failure;
  failure.rank = rank;
  failure.pid = 100 + rank;
  failure.host = "node0";
  failure.exit_status = exit_status;
  return failure;
}

StopRound order_to_restart() {
  StopRound order;
  order.restarts = true;
  return order;
}

/// A round in which rank 0, of this node, has failed.
RoundEnd failed_here() {
  RoundEnd end;
  end.failure = failure_of_rank(0);
  return end;
}

Supervisor::News exit_after(Duration ran_for) {
  Supervisor::News news;
  WorkerFailure& failure = news.failures.emplace_back();
  failure.pid = 100;
  failure.end.code = 3;
  news.ran_for = ran_for;
  return news;
}

TEST(RoundEnd, BeganHereUnlessTheOrderNamesAnotherCulprit) {
  RoundEnd end = failed_here();
  EXPECT_TRUE(end.began_here());
  StopRound order = order_to_restart();
  order.culprit = failure_of_rank(1);
  end.add_order(order);
  EXPECT_FALSE(end.began_here());
}

TEST(RoundEnd, TakesASecondOrderOnlyIfItNamesTheCulprit) {
  RoundEnd end;
  StopRound order = order_to_restart();
  EXPECT_TRUE(end.add_order(order));
  EXPECT_FALSE(end.add_order(order));
  order.culprit = failure_of_rank(0);
  EXPECT_TRUE(end.add_order(order));
  EXPECT_FALSE(end.add_order(order));
}

TEST(RoundEnd, MayBeTheNodesFaultOnlyIfWorkersAreToRunAgain) {
  RoundEnd end = failed_here();
  EXPECT_TRUE(end.may_be_nodes_fault());
  end.add_order(StopRound{});
  EXPECT_FALSE(end.may_be_nodes_fault());
}

TEST(RoundEnd, IsNotTheNodesFaultIfAWorkerLostItsPeer) {
  RoundEnd end;
  end.failure = failure_of_rank(0, kExitTryAgain);
  EXPECT_FALSE(end.may_be_nodes_fault());
}

TEST(RoundEnd, MayRepeatAnExitSoonAfterTheStart) {
  const RoundEnd end = failed_here();
  EXPECT_TRUE(end.may_repeat(exit_after(1s), /*max_restarts=*/1));
  EXPECT_FALSE(end.may_repeat(exit_after(1s), /*max_restarts=*/0));
  EXPECT_FALSE(end.may_repeat(exit_after(1min), /*max_restarts=*/1));
}

TEST(RoundEnd, EndsTheJobInsteadOfRestartingOnceASignalCame) {
  RoundEnd end = failed_here();
  end.add_order(order_to_restart());
  EXPECT_TRUE(end.outcome().restarts);
  end.stopped_by = SIGTERM;
  EXPECT_FALSE(end.outcome().restarts);
  EXPECT_EQ(end.outcome().exit_status, 143);
}

TEST(RoundEnd, KeepsTheSignalForTheNextRound) {
  RoundEnd end = failed_here();
  end.stopped_by = SIGTERM;
  end.begin_round();
  EXPECT_FALSE(end.began_here());
  EXPECT_EQ(end.stopped_by, SIGTERM);
}

// A worker of the next attempt that somebody killed was said to have hung.
TEST(RoundEnd, ForgetsWhomItHasEndedForAHang) {
  RoundEnd end;
  end.hung.insert(2);
  end.begin_round();
  EXPECT_TRUE(end.hung.empty());
}

TEST(RoundEnd, GivesUpWithTheStatusOfTheJobsCulpritElseOfItsOwn) {
  RoundEnd end = failed_here();
  EXPECT_EQ(end.exit_status_if_given_up(exit_after(1s)), 3);
  StopRound order;
  order.culprit = failure_of_rank(1, 7);
  end.add_order(order);
  EXPECT_EQ(end.exit_status_if_given_up(exit_after(1s)), 7);
  EXPECT_EQ(RoundEnd().exit_status_if_given_up({}), kExitTryAgain);
}

}  // namespace
}  // namespace ddprun
