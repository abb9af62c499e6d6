// Life lines over real sockets: what their end proves, and what it does not.

#include "rendezvous/life_lines.hpp"

#include "tests/rendezvous/running_agent.hpp"

#include <gtest/gtest.h>

#include <limits>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;
using Deed = Holder::Deed;

constexpr Incarnation kNode{0xA1};
constexpr Incarnation kMarker{0xFF};
constexpr std::int64_t kGeneration = 4;

/// What one says who opens a line.
std::string opening_by(
    Incarnation node, const std::string& job = "j", const std::string& proof = "") {
  return std::string(opening_of(Protocol::kLifeLine)) +
         RawAgent::framed(encode(
             LineHello{.job = job, .node = node, .generation = kGeneration, .proof = proof}));
}

/// The leader holds this line, and has told so.
void expect_opened(RunningAgent& leader, Incarnation node, std::int64_t generation = kGeneration) {
  EXPECT_EQ(leader.next_of_front(), Deed::kHeldEnd);
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<LifeLines::LineOpened>(*event));
  EXPECT_EQ(std::get<LifeLines::LineOpened>(*event).node, node);
  EXPECT_EQ(std::get<LifeLines::LineOpened>(*event).generation, generation);
}

/// A leader, and a node whose line has been opened to it and is held at both sides.
class LifeLinesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    open(kGeneration);
    EXPECT_EQ(node_->next_of_front(), Deed::kHeldLine);
    expect_opened(leader_, kNode);
  }

  void open(std::int64_t generation) {
    node_->run_lines(
        [&](LifeLines& lines, Holder&) { lines.open_line(leader_.endpoint(), generation, kNode); });
  }

  /// The node's line as a worker of it inherits it.
  Descriptor inherited() {
    Descriptor copy;
    node_->run_lines(
        [&](LifeLines& lines, Holder&) { copy = Descriptor(::dup(lines.lines().back())); });
    EXPECT_TRUE(copy);
    return copy;
  }

  void expect_ended(Incarnation node) {
    const auto event = leader_.next_of_lines();
    ASSERT_TRUE(event && std::holds_alternative<LifeLines::LineEnded>(*event));
    EXPECT_EQ(std::get<LifeLines::LineEnded>(*event).node, node);
    EXPECT_EQ(std::get<LifeLines::LineEnded>(*event).generation, kGeneration);
  }

  /// Whatever had been told before would stand before the end of this other line.
  void expect_nothing_told() {
    RawAgent marker(leader_, opening_by(kMarker));
    expect_opened(leader_, kMarker);
    marker.leave();
    expect_ended(kMarker);
    EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
  }

  RunningAgent leader_;
  std::unique_ptr<RunningAgent> node_ = std::make_unique<RunningAgent>();
};

TEST_F(LifeLinesTest, R2ALineEndsWhenTheLastProcessThatHoldsItHasEnded) {
  Descriptor worker = inherited();
  node_.reset();  // agent and front
  expect_nothing_told();
  worker.reset();
  expect_ended(kNode);
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
}

TEST_F(LifeLinesTest, AResetIsAnEndToo) {
  const linger abrupt{.l_onoff = 1, .l_linger = 0};
  Descriptor worker = inherited();
  ::setsockopt(worker.get(), SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
  node_.reset();
  worker.reset();
  expect_ended(kNode);
}

TEST_F(LifeLinesTest, OneLineIsOpenedForEachGenerationAndEarlierOnesStay) {
  open(kGeneration);
  open(kGeneration - 1);
  node_->run_lines([](LifeLines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
  open(kGeneration + 1);
  expect_opened(leader_, kNode, kGeneration + 1);
  node_->run_lines([](LifeLines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 2U); });
  expect_nothing_told();
}

TEST_F(LifeLinesTest, TheKernelOfANodeNeverGivesItsLineUp) {
  const Descriptor line = inherited();
  int keepalive = -1;
  int timeout_ms = -1;
  socklen_t size = sizeof(int);
  EXPECT_EQ(::getsockopt(line.get(), SOL_SOCKET, SO_KEEPALIVE, &keepalive, &size), 0);
  EXPECT_EQ(::getsockopt(line.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &size), 0);
  EXPECT_EQ(keepalive, 0);
  EXPECT_EQ(timeout_ms, std::numeric_limits<int>::max());
}

TEST_F(LifeLinesTest, ANodeIsDeadWhenTheLastOfItsLinesHasEnded) {
  RawAgent other(leader_, opening_by(kNode));
  expect_opened(leader_, kNode);
  other.leave();
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
  expect_nothing_told();
  node_.reset();
  expect_ended(kNode);
}

TEST_F(LifeLinesTest, AFarewellIsToldToTheNode) {
  leader_.run_lines([](LifeLines&, Holder& front) { front.say_farewell(); });
  const auto event = node_->next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<LifeLines::Farewell>(*event));
  EXPECT_EQ(std::get<LifeLines::Farewell>(*event).generation, kGeneration);
}

TEST(LifeLines, ALineThatTheLeaderClosesWithoutFarewellProvesNothing) {
  RunningAgent node;
  const auto open_to = [&](const RunningAgent& leader, std::int64_t generation) {
    node.run_lines(
        [&](LifeLines& lines, Holder&) { lines.open_line(leader.endpoint(), generation, kNode); });
    EXPECT_EQ(node.next_of_front(), Deed::kHeldLine);
  };
  {
    RunningAgent killed;
    open_to(killed, 1);
    expect_opened(killed, kNode, 1);
  }
  EXPECT_EQ(node.next_of_front(), Deed::kLetGo);
  RunningAgent leaves;
  open_to(leaves, 2);
  expect_opened(leaves, kNode, 2);
  leaves.run_lines([](LifeLines&, Holder& front) { front.say_farewell(); });
  // The first thing that is told at all.
  const auto event = node.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<LifeLines::Farewell>(*event));
  EXPECT_EQ(std::get<LifeLines::Farewell>(*event).generation, 2);
}

TEST_F(LifeLinesTest, WordsOnALineProveNothing) {
  RawAgent speaker(leader_, opening_by(kMarker) + "hello");
  expect_opened(leader_, kMarker);
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
  EXPECT_TRUE(speaker.is_closed());
  expect_nothing_told();
}

TEST_F(LifeLinesTest, AStrangersLineIsClosed) {
  for (const std::string& opening :
       {opening_by(kNode, "another job"),
        std::string("\xDDRL\x02"),
        std::string(opening_of(Protocol::kLifeLine)) + RawAgent::framed("{}"),
        std::string(opening_of(Protocol::kLifeLine)) + std::string(4, '\xFF')}) {
    EXPECT_TRUE(RawAgent(leader_, opening).is_closed());
  }
  expect_nothing_told();
}

TEST_F(LifeLinesTest, ALineThatTheFrontDoesNotHoldIsNotOpened) {
  node_->run_lines([](LifeLines&, Holder& front) { front.refuse(); });
  open(kGeneration + 1);
  node_->run_lines([](LifeLines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
  expect_nothing_told();
}

TEST_F(LifeLinesTest, ALineToNobodyIsGivenUp) {
  const Endpoint gone = [] {
    const RunningAgent other;
    return other.endpoint();
  }();
  node_->run_lines(
      [&](LifeLines& lines, Holder&) { lines.open_line(gone, kGeneration + 1, kNode); });
  EXPECT_EQ(node_->next_of_front(), Deed::kHeldLine);
  EXPECT_EQ(node_->next_of_front(), Deed::kLetGo);
  node_->run_lines([](LifeLines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
}

// Incarnations stand in /status for everybody to read. A line in the name of a node whose own one
// was not open at that moment made its end a proof of a death that never was.
TEST(LifeLines, AStrangerWithoutTheSecretCannotFakeADeath) {
  const std::string secret = "sixteen bytes or more";
  RunningAgent leader({}, {}, secret);
  const LineHello genuine{.job = "j", .node = kNode, .generation = kGeneration, .proof = {}};
  const std::string guessed = line_proof(load_mac("another secret, as long").value(), genuine);
  LineHello earlier = genuine;
  earlier.generation -= 1;
  const Mac mac = load_mac(secret).value();
  for (const std::string& proof : {std::string(), guessed, line_proof(mac, earlier)}) {
    EXPECT_TRUE(RawAgent(leader, opening_by(kMarker, "j", proof)).is_closed());
    EXPECT_TRUE(RawAgent(leader, opening_by(kNode, "j", proof)).is_closed());
  }
  {
    RunningAgent node({}, {}, secret);
    node.run_lines(
        [&](LifeLines& lines, Holder&) { lines.open_line(leader.endpoint(), kGeneration, kNode); });
    expect_opened(leader, kNode);  // the first thing at all
  }
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<LifeLines::LineEnded>(*event));
  EXPECT_EQ(std::get<LifeLines::LineEnded>(*event).node, kNode);
}

TEST(LifeLines, WhoSaysNothingIsClosed) {
  const RunningAgent leader({.handshake = 50ms});
  RawAgent silent(leader, opening_of(Protocol::kLifeLine));
  EXPECT_TRUE(silent.is_closed());
}

TEST(LifeLines, ManyHellosCutAnywhereAreTold) {
  RunningAgent leader;
  const std::string opening = opening_by(kNode);
  for (std::size_t cut = 1; cut < opening.size(); ++cut) {
    RawAgent line(leader, opening.substr(0, cut));
    line.say_bytes(opening.substr(cut));
    expect_opened(leader, kNode);
    line.leave();
    EXPECT_TRUE(leader.next_of_lines().has_value());
    EXPECT_EQ(leader.next_of_front(), Deed::kLetGo);
  }
}

}  // namespace
}  // namespace ddprun
