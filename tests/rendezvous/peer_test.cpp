// What Peer tells whoever started its node. What it decides is told in tests/sim.

#include "rendezvous/core/peer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// What one node of two says for all to see that is alone for a minute, its calls all refused.
std::vector<std::string> said_alone(bool founds) {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.host = "n0";
  policy.node.listens = {.host = "", .port = 5};
  policy.nodes = NodeRange(2, 2);
  policy.founds = founds;
  policy.meet = {Endpoint{.host = "n7", .port = 29400}};
  Peer peer(policy);
  std::vector<std::string> said;
  const TimePoint began = TimePoint() + 1h;
  TimePoint now = began;
  const auto feed = [&](const Peer::Event& event) {
    Effects effects;
    peer.apply(event, now, effects);
    Link called{};
    for (const Effect& effect : effects) {
      const auto* const note = std::get_if<effects::Note>(&effect);
      if (note != nullptr && note->is_for_all) said.push_back(note->text);
      if (const auto* const call = std::get_if<effects::Call>(&effect)) called = call->link;
    }
    return called;
  };
  for (Link called = feed(Peer::Begin{}); now < began + 1min;) {
    if (called != Link{}) {
      called = feed(Peer::Closed{.link = called, .why = "refused"});
      continue;
    }
    now = peer.next_deadline().value_or(kNever);
    called = feed(Peer::Tick{});
  }
  return said;
}

TEST(Peer, SaysOnceForWhichNodesItWaits) {
  EXPECT_THAT(
      said_alone(true),
      ElementsAre("1 of at least 2 nodes are here, the others are waited for, for 600 s at most: "
                  "here are n0"));
}

TEST(Peer, SaysOnceThatItLooksForTheJobAndWhatTheLastTryCameTo) {
  EXPECT_THAT(
      said_alone(false), ElementsAre("still looks for job 'j', for 600 s at most: refused"));
}

/// Where a node of job "j" calls that may be met at two ports, and is refused by whoever answers at
/// the first with `refusal`; with "ended" behind it if the node gives up.
std::vector<std::string> calls_after(const Refuse& refusal) {
  RendezvousPolicy policy;
  policy.job = "j";
  policy.node.incarnation = Incarnation{1};
  policy.node.listens = {.host = "n1", .port = 5};
  policy.nodes = NodeRange(2, 2);
  policy.founds = false;
  policy.meet = {{.host = "n0", .port = 10'042}, {.host = "n0", .port = 20'042}};
  Peer peer(policy);
  const TimePoint now = TimePoint() + 1h;
  std::vector<std::string> calls;
  Link called{};
  const auto feed = [&](const Peer::Event& event) {
    Effects effects;
    peer.apply(event, now, effects);
    for (const Effect& effect : effects) {
      if (std::holds_alternative<effects::Finish>(effect)) calls.emplace_back("ended");
      const auto* const call = std::get_if<effects::Call>(&effect);
      if (call == nullptr) continue;
      called = call->link;
      calls.push_back(call->to.to_string());
    }
  };
  feed(Peer::Begin{});
  feed(Peer::Connected{.link = called});
  feed(Peer::Received{.link = called, .message = refusal});
  return calls;
}

TEST(Peer, LooksForItsJobBehindAnotherThatHasItsPort) {
  const Refuse stranger{.job = "k", .exit_status = 2, .why = "job 'k' runs there"};
  EXPECT_THAT(calls_after(stranger), ElementsAre("n0:10042", "n0:20042"));
  const Refuse of_another_version{.job = "", .exit_status = 2, .why = "version 7"};
  EXPECT_THAT(calls_after(of_another_version), ElementsAre("n0:10042", "n0:20042"));
}

TEST(Peer, IsRefusedByItsOwnJobForGood) {
  const Refuse own{.job = "j", .exit_status = 2, .why = "--nnodes differs"};
  EXPECT_THAT(calls_after(own), ElementsAre("n0:10042", "ended"));
}

}  // namespace
}  // namespace ddprun
