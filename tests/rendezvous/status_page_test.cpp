#include "rendezvous/status_page.hpp"

#include "rendezvous/core/status.hpp"

#include <gtest/gtest.h>

#include <variant>

namespace ddprun {
namespace {

constexpr TimePoint kNow = TimePoint() + std::chrono::seconds(1000);

RendezvousPolicy policy_of(bool bootstraps) {
  RendezvousPolicy policy;
  policy.job = "run7";
  policy.node.incarnation = Incarnation{1};
  policy.node.host = "n0";
  policy.nodes = NodeRange(2, 2);
  policy.bootstraps = bootstraps;
  policy.endpoints = {Endpoint{.host = "10.0.0.9", .port = 29400}};
  return policy;
}

TEST(StatusPage, OfTheLeaderIsTheStatus) {
  RendezvousNode peer(policy_of(true));
  Effects out;
  peer.apply(RendezvousNode::Begin{}, kNow, out);
  const HttpPage page = status_page(peer, "1.2", kNow);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "application/json");
  const auto status = parse_status(page.body);
  ASSERT_TRUE(status) << status.error().detail;
  EXPECT_EQ(status->job, "run7");
  EXPECT_EQ(status->version, "1.2");
}

TEST(StatusPage, OfAnotherNodeIsTheWayToTheLeader) {
  RendezvousNode peer(policy_of(false));
  Effects out;
  peer.apply(RendezvousNode::Begin{}, kNow, out);
  EXPECT_EQ(status_page(peer, "1.2", kNow).status, 503);

  ASSERT_FALSE(out.empty());
  Link called{};
  for (const Effect& effect : out) {
    if (const auto* const call = std::get_if<effects::Call>(&effect)) called = call->link;
  }
  Welcome welcome;
  welcome.term = 1;
  welcome.leader.incarnation = Incarnation{7};
  welcome.leader.listens = {.host = "10.0.0.9", .port = 29400};
  welcome.lease = std::chrono::seconds(3);
  peer.apply(RendezvousNode::Connected{.link = called}, kNow, out);
  peer.apply(RendezvousNode::Received{.link = called, .message = welcome}, kNow, out);
  const HttpPage page = status_page(peer, "1.2", kNow);
  EXPECT_EQ(page.status, 307);
  EXPECT_EQ(page.location, "http://10.0.0.9:29400/status");
}

}  // namespace
}  // namespace ddprun
