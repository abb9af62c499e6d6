#include "agent/core/key_need.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

LaunchPlan plan_of_one_node(AuthChoice auth = AuthChoice::kAuto) {
  LaunchPlan plan;
  plan.rendezvous.auth = auth;
  return plan;
}

TEST(KeyNeed, AJobOfOneNodeOnTheLoopbackLoadsNothingByDefault) {
  EXPECT_FALSE(needs_key(plan_of_one_node()));
  EXPECT_FALSE(is_open_to_others(plan_of_one_node()));
}

TEST(KeyNeed, AJobOfOneNodeHidesItsStatusIfItIsAsked) {
  EXPECT_TRUE(needs_key(plan_of_one_node(AuthChoice::kMunge)));
  EXPECT_TRUE(needs_key(plan_of_one_node(AuthChoice::kSecret)));
  EXPECT_FALSE(needs_key(plan_of_one_node(AuthChoice::kNone)));
}

TEST(KeyNeed, WhatOtherMachinesCanReachNeedsAKey) {
  LaunchPlan plan = plan_of_one_node();
  plan.master_address = "10.0.0.7";
  EXPECT_TRUE(needs_key(plan));
  plan.shared_store = false;  // then nothing listens
  EXPECT_FALSE(needs_key(plan));
  plan.rendezvous.endpoint = Endpoint{.host = "n0", .port = 29400};
  EXPECT_TRUE(needs_key(plan));
  plan.rendezvous.auth = AuthChoice::kNone;
  EXPECT_FALSE(needs_key(plan));
}

}  // namespace
}  // namespace ddprun
