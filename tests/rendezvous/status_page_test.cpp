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

/// The node that `node` has called by `out` leads.
void welcome_by_leader(RendezvousNode& node, Effects& out) {
  Link called{};
  for (const Effect& effect : out) {
    if (const auto* const call = std::get_if<effects::Call>(&effect)) called = call->link;
  }
  Welcome welcome;
  welcome.term = 1;
  welcome.leader.incarnation = Incarnation{7};
  welcome.leader.listens = {.host = "10.0.0.9", .port = 29400};
  welcome.lease = std::chrono::seconds(3);
  node.apply(RendezvousNode::Connected{.link = called}, kNow, out);
  node.apply(RendezvousNode::Received{.link = called, .message = welcome}, kNow, out);
}

TEST(StatusPage, OfTheLeaderIsTheStatus) {
  RendezvousNode peer(policy_of(true));
  Effects out;
  peer.apply(RendezvousNode::Begin{}, kNow, out);
  const HttpPage page = status_page(peer, "1.2", {}, kNow);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "application/json");
  const auto status = parse_status(*page.body);
  ASSERT_TRUE(status) << status.error().detail;
  EXPECT_EQ(status->job, "run7");
  EXPECT_EQ(status->version, "1.2");
}

TEST(StatusPage, OfAnotherNodeIsTheWayToTheLeader) {
  RendezvousNode peer(policy_of(false));
  Effects out;
  peer.apply(RendezvousNode::Begin{}, kNow, out);
  EXPECT_EQ(status_page(peer, "1.2", {}, kNow).status, 503);

  welcome_by_leader(peer, out);
  const HttpPage page = status_page(peer, "1.2", {}, kNow);
  EXPECT_EQ(page.status, 307);
  EXPECT_EQ(page.location, "http://10.0.0.9:29400/status");
}

TEST(StatusPages, ThePublicOneOfALeaderHasOnlyTheState) {
  RendezvousNode leader(policy_of(true));
  Effects out;
  leader.apply(RendezvousNode::Begin{}, kNow, out);
  const HttpPage page = StatusPages(leader, "1.2", nullptr).public_page(kNow);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(
      *page.body,
      "{\"state\":\"gathering\",\"is_one_node\":false,\"hint\":\"the job's user sees the rest by: "
      "ddpctl status HOST:PORT\"}\n");
  const auto status = parse_public_status(*page.body);
  ASSERT_TRUE(status) << status.error().detail;
  EXPECT_EQ(status->state, JobStatus::State::kGathering);
  EXPECT_FALSE(parse_status(*page.body));
}

TEST(StatusPages, ThePublicOneOfAnotherNodeDoesNotNameTheLeader) {
  RendezvousNode peer(policy_of(false));
  Effects out;
  peer.apply(RendezvousNode::Begin{}, kNow, out);
  const StatusPages pages(peer, "1.2", [] { return std::vector<StepReport>(); });
  EXPECT_EQ(pages.public_page(kNow).status, 503);
  welcome_by_leader(peer, out);
  const HttpPage page = pages.public_page(kNow);
  EXPECT_EQ(page.status, 401);
  EXPECT_FALSE(page.location);
  EXPECT_EQ(page.body->find("10.0.0.9"), std::string::npos) << *page.body;
}

// Each request made a page of its own, on the thread that answers heartbeats.
TEST(StatusPages, OneIsMadeOnceInAHeartbeatIntervalHoweverManyAsk) {
  RendezvousNode leader(policy_of(true));
  Effects out;
  leader.apply(RendezvousNode::Begin{}, kNow, out);
  StatusPages pages(leader, "1.2", [] { return std::vector<StepReport>(); });
  const auto nodes_at = [&](TimePoint now) {
    const auto status = parse_status(*pages.page(now).body);
    return status ? status->nodes.size() : 0;
  };
  EXPECT_EQ(nodes_at(kNow), 1U);
  EXPECT_EQ(pages.page(kNow).body, pages.page(kNow).body) << "a copy for each";
  Hello hello;
  hello.job = "run7";
  hello.node.incarnation = Incarnation{2};
  hello.node.host = "n1";
  hello.node.workers = 1;
  hello.nodes_min = 2;
  hello.nodes_max = 2;
  hello.lease = std::chrono::seconds(3);
  leader.apply(RendezvousNode::Received{.link = Link{2}, .message = hello}, kNow, out);
  EXPECT_EQ(nodes_at(kNow + std::chrono::milliseconds(199)), 1U);
  EXPECT_EQ(nodes_at(kNow + std::chrono::milliseconds(200)), 2U);
  // The end of the job is what people wait for.
  leader.apply(
      RendezvousNode::Signalled{.signal = 15, .whole_job = true},
      kNow + std::chrono::milliseconds(201),
      out);
  const auto ended = parse_status(*pages.page(kNow + std::chrono::milliseconds(202)).body);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->state, JobStatus::State::kEnded);
}

}  // namespace
}  // namespace ddprun
