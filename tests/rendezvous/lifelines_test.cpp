// Lifelines over real sockets: what their end proves, and what it does not.

#include "rendezvous/lifelines.hpp"

#include "base/exit_status.hpp"
#include "base/run_main.hpp"
#include "rendezvous/load_mac.hpp"
#include "tests/rendezvous/brittle_mac.hpp"
#include "tests/rendezvous/running_agent.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;
using Deed = Holder::Deed;

const std::string kSecret = "sixteen bytes or more";
constexpr Incarnation kNode{0xA1};
constexpr Incarnation kMarker{0xFF};
constexpr Leadership kLeadership{.term = 4, .leader = Incarnation{0x1EAD}};
constexpr Leadership kNext{.term = 5, .leader = Incarnation{0x1EAF}};

/// The opening and hello of a node that opens a lifeline.
std::string opening_by(
    Incarnation node, const std::string& job = "j", const std::string& proof = "") {
  return std::string(opening_of(Protocol::kLifeline)) +
         RawAgent::framed(encode(
             LifelineHello{.job = job, .node = node, .leadership = kLeadership, .proof = proof}));
}

/// Removes `socket` from the kernel without sending anything, like a machine that lost power. False
/// if that is not permitted.
bool lose_power(const Descriptor& socket) {
  const int on = 1;
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) == 0;
}

void expect_goodbye(RunningAgent& node, const Leadership& leadership) {
  const auto event = node.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::Goodbye>(*event));
  EXPECT_EQ(std::get<Lifelines::Goodbye>(*event).leadership, leadership);
}

/// The leader holds this line, and has sent H.
void expect_opened(
    RunningAgent& leader, Incarnation node, const Leadership& leadership = kLeadership) {
  EXPECT_EQ(leader.next_of_front(), Deed::kHeldEnd);
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineOpened>(*event));
  EXPECT_EQ(std::get<Lifelines::LifelineOpened>(*event).node, node);
  EXPECT_EQ(std::get<Lifelines::LifelineOpened>(*event).leadership, leadership);
}

/// The line of that node has gone, and nothing is proved by it.
void expect_dropped(RunningAgent& leader, Incarnation node) {
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineDropped>(*event));
  EXPECT_EQ(std::get<Lifelines::LifelineDropped>(*event).node, node);
}

/// The newest line of `node` as a worker of it inherits it.
Descriptor inherited_line(RunningAgent& node) {
  Descriptor copy;
  node.run_lines(
      [&](Lifelines& lines, Holder&) { copy = Descriptor(::dup(lines.lines().back())); });
  EXPECT_TRUE(copy);
  return copy;
}

/// An agent that does only what the test asks.
void expect_idle(RunningAgent& agent) {
  constexpr int kQuestions = 200;
  const int before = agent.wake_ups();
  for (int i = 0; i < kQuestions; ++i) {
    agent.run_lines([](Lifelines&, Holder&) {});
  }
  EXPECT_LT(agent.wake_ups() - before, kQuestions + kQuestions / 4);
}

/// A leader, and a node whose line to it is open and held on both sides.
class LifelinesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    open(kLeadership);
    EXPECT_EQ(node_->next_of_front(), Deed::kHeldLine);
    expect_opened(leader_, kNode);
  }

  void open(const Leadership& leadership, Incarnation node = kNode) {
    node_->run_lines(
        [&](Lifelines& lines, Holder&) { lines.open_line(leader_.endpoint(), leadership, node); });
  }

  void expect_ended(Incarnation node) {
    const auto event = leader_.next_of_lines();
    ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineEnded>(*event));
    EXPECT_EQ(std::get<Lifelines::LifelineEnded>(*event).node, node);
    EXPECT_EQ(std::get<Lifelines::LifelineEnded>(*event).leadership, kLeadership);
  }

  /// Anything reported before would appear before the end of this other line.
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

TEST_F(LifelinesTest, R2ALineEndsWhenTheLastProcessThatHoldsItHasEnded) {
  Descriptor worker = inherited_line(*node_);
  node_.reset();  // agent and guard
  expect_nothing_told();
  worker.reset();
  expect_ended(kNode);
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
}

TEST_F(LifelinesTest, AResetIsAnEndToo) {
  const linger abrupt{.l_onoff = 1, .l_linger = 0};
  Descriptor worker = inherited_line(*node_);
  ::setsockopt(worker.get(), SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
  node_.reset();
  worker.reset();
  expect_ended(kNode);
}

TEST_F(LifelinesTest, OneLineIsOpenedForEachLeadershipAndEarlierOnesStay) {
  open(kLeadership);
  open(kLeadership);
  node_->run_lines([](Lifelines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
  open(kNext);
  expect_opened(leader_, kNode, kNext);
  node_->run_lines([](Lifelines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 2U); });
  expect_nothing_told();
}

TEST_F(LifelinesTest, ANodeThatBeginsAgainOpensALineOfItsOwnToTheSameLeader) {
  constexpr Incarnation kAnew{0xA0};
  open(kLeadership, kAnew);
  expect_opened(leader_, kAnew);
  node_.reset();
  std::set<Incarnation> ended;
  for (int line = 0; line < 2; ++line) {
    const auto event = leader_.next_of_lines();
    ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineEnded>(*event));
    ended.insert(std::get<Lifelines::LifelineEnded>(*event).node);
  }
  EXPECT_EQ(ended, (std::set<Incarnation>{kNode, kAnew}));
}

TEST_F(LifelinesTest, TheKernelOfANodeKeepsItsLineForSoLongAsItIsTold) {
  const Descriptor line = inherited_line(*node_);
  int keepalive = -1;
  int timeout_ms = -1;
  socklen_t size = sizeof(int);
  EXPECT_EQ(::getsockopt(line.get(), SOL_SOCKET, SO_KEEPALIVE, &keepalive, &size), 0);
  EXPECT_EQ(::getsockopt(line.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &size), 0);
  EXPECT_EQ(keepalive, 0);
  EXPECT_EQ(std::chrono::milliseconds(timeout_ms), LifelineLimits().unconfirmed);
}

TEST_F(LifelinesTest, ANodeIsDeadWhenTheLastOfItsLinesHasEnded) {
  RawAgent other(leader_, opening_by(kNode));
  expect_opened(leader_, kNode);
  other.leave();
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
  expect_nothing_told();
  node_.reset();
  expect_ended(kNode);
}

TEST_F(LifelinesTest, AGoodbyeIsReportedToTheNode) {
  leader_.run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  const auto event = node_->next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::Goodbye>(*event));
  EXPECT_EQ(std::get<Lifelines::Goodbye>(*event).leadership, kLeadership);
}

TEST(Lifelines, ALineThatTheLeaderClosesWithoutGoodbyeProvesNothing) {
  RunningAgent node;
  const auto open_to = [&](const RunningAgent& leader, const Leadership& leadership) {
    node.run_lines(
        [&](Lifelines& lines, Holder&) { lines.open_line(leader.endpoint(), leadership, kNode); });
    EXPECT_EQ(node.next_of_front(), Deed::kHeldLine);
  };
  {
    RunningAgent killed;
    open_to(killed, kLeadership);
    expect_opened(killed, kNode);
  }
  EXPECT_EQ(node.next_of_front(), Deed::kLetGo);
  RunningAgent leaves;
  open_to(leaves, kNext);
  expect_opened(leaves, kNode, kNext);
  leaves.run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  // The first report of all.
  const auto event = node.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::Goodbye>(*event));
  EXPECT_EQ(std::get<Lifelines::Goodbye>(*event).leadership, kNext);
}

/// A leader that sends H for the ends that it holds, and a node with a line to it.
class HeldLines : public ::testing::Test {
 protected:
  void SetUp() override {
    open(*leader_, kLeadership);
    expect_opened(*leader_, kNode);
  }

  void open(const RunningAgent& leader, const Leadership& leadership) {
    node_.run_lines(
        [&](Lifelines& lines, Holder&) { lines.open_line(leader.endpoint(), leadership, kNode); });
    EXPECT_EQ(node_.next_of_front(), Deed::kHeldLine);
  }

  /// The ends that the leader passes to its workers, as one of them inherits them.
  std::vector<Descriptor> hold_ends(const std::vector<Incarnation>& successors) {
    std::vector<Descriptor> copies;
    leader_->run_lines([&](Lifelines& lines, Holder&) {
      for (const int end : lines.hold_ends(successors)) {
        copies.emplace_back(::dup(end));
      }
    });
    return copies;
  }

  /// Anything reported before would appear before the goodbye of this other leader.
  void expect_nothing_told() {
    RunningAgent leaves;
    open(leaves, kNext);
    expect_opened(leaves, kNode, kNext);
    leaves.run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
    expect_goodbye(node_, kNext);
  }

  std::unique_ptr<RunningAgent> leader_ = std::make_unique<RunningAgent>();
  RunningAgent node_;
};

TEST_F(HeldLines, R2TheEndOfOneIsAGoodbyeOnceTheLastWorkerHasEnded) {
  std::vector<Descriptor> worker = hold_ends({kNode});
  ASSERT_EQ(worker.size(), 1U);
  leader_.reset();  // agent and guard
  expect_nothing_told();
  worker.clear();
  expect_goodbye(node_, kLeadership);
}

TEST_F(HeldLines, TheEndOfOneProvesNothingWhereResetsAreNotTrusted) {
  RunningAgent wary({}, {}, {}, false);
  const auto open_from_wary = [&](const RunningAgent& leader, const Leadership& leadership) {
    wary.run_lines([&](Lifelines& lines, Holder&) {
      lines.open_line(leader.endpoint(), leadership, kMarker);
    });
    EXPECT_EQ(wary.next_of_front(), Deed::kHeldLine);
  };
  open_from_wary(*leader_, kLeadership);
  expect_opened(*leader_, kMarker);
  EXPECT_EQ(hold_ends({kMarker}).size(), 1U);
  leader_.reset();
  EXPECT_EQ(wary.next_of_front(), Deed::kLetGo);
  RunningAgent leaves;
  open_from_wary(leaves, kNext);
  expect_opened(leaves, kMarker, kNext);
  leaves.run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  expect_goodbye(wary, kNext);  // the first report of all
}

TEST_F(HeldLines, AWorkerThatIsStartedLaterGetsThemToo) {
  hold_ends({kNode});
  EXPECT_EQ(hold_ends({}).size(), 1U);
}

TEST_F(HeldLines, AnEndThatTheGuardDoesNotHoldIsNotClaimed) {
  leader_->run_lines([](Lifelines&, Holder& guard) { guard.refuse(); });
  EXPECT_TRUE(hold_ends({kNode}).empty());
  leader_.reset();
  EXPECT_EQ(node_.next_of_front(), Deed::kLetGo);
  expect_nothing_told();
}

TEST_F(HeldLines, OnlyThoseOfTheFirstSuccessorsAreHeld) {
  std::vector<Incarnation> successors;
  std::vector<std::unique_ptr<RawAgent>> nodes;
  for (std::uint64_t i = 0; i < kHeldEndsMax; ++i) {
    const Incarnation successor{0xB0 + i};
    nodes.push_back(std::make_unique<RawAgent>(*leader_, opening_by(successor)));
    expect_opened(*leader_, successor);
    successors.push_back(successor);
  }
  successors.push_back(kNode);
  EXPECT_EQ(hold_ends(successors).size(), std::size_t{kHeldEndsMax});
  for (const auto& node : nodes) {
    EXPECT_EQ(node->hear_byte(), kHeld);
  }
  leader_.reset();
  EXPECT_EQ(node_.next_of_front(), Deed::kLetGo);
  expect_nothing_told();
}

TEST_F(HeldLines, OneIsNotClosedByALeaderThatLives) {
  RawAgent speaker(*leader_, opening_by(kMarker));
  expect_opened(*leader_, kMarker);
  std::vector<Descriptor> worker = hold_ends({kMarker});
  EXPECT_EQ(speaker.hear_byte(), kHeld);
  worker.clear();
  speaker.say_bytes("hello");
  leader_->run_lines([](Lifelines& lines, Holder&) { lines.probe(kMarker); });
  EXPECT_EQ(speaker.hear_byte(), kProbe);
  speaker.leave();  // and proves nothing by it
  EXPECT_EQ(leader_->next_of_front(), Deed::kLetGo);
  expect_dropped(*leader_, kMarker);
  const RawAgent other(*leader_, opening_by(kNext.leader));
  expect_opened(*leader_, kNext.leader);
}

// The peer would take its end for the death of a leader that lives.
TEST_F(HeldLines, OneIsNotClosedByAnExceptionInTheWorkForIt) {
  RawAgent speaker(*leader_, opening_by(kMarker));
  expect_opened(*leader_, kMarker);
  hold_ends({kMarker});
  EXPECT_EQ(speaker.hear_byte(), kHeld);
  leader_->run_lines([](Lifelines&, Holder& guard) { guard.fail_once(); });
  speaker.fall_silent();
  expect_dropped(*leader_, kMarker);
  leader_->run_lines([](Lifelines& lines, Holder&) { lines.probe(kMarker); });
  EXPECT_EQ(speaker.hear_byte(), kProbe);
  const RawAgent other(*leader_, opening_by(kNext.leader));
  expect_opened(*leader_, kNext.leader);
}

// The leader would take its end for the death of a node that lives.
TEST_F(HeldLines, ANodeDoesNotCloseItsLineByAnExceptionInTheWorkForIt) {
  node_.run_lines([](Lifelines&, Holder& guard) { guard.fail_once(); });
  leader_->run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  expect_nothing_told();  // and its line to the next leader is closed
  node_.run_lines([](Lifelines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
}

TEST_F(HeldLines, AnAgentDoesNotSpinWhileItsWorkersHoldTheLineToALeaderThatHasGone) {
  const Descriptor worker = inherited_line(node_);
  leader_->run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  leader_.reset();
  expect_goodbye(node_, kLeadership);
  EXPECT_EQ(node_.next_of_front(), Deed::kLetGo);
  expect_idle(node_);
}

TEST_F(HeldLines, ALeaderDoesNotSpinWhileItsWorkersHoldTheLineOfANodeThatHasGone) {
  RawAgent gone(*leader_, opening_by(kMarker));
  expect_opened(*leader_, kMarker);
  const std::vector<Descriptor> worker = hold_ends({kMarker});
  EXPECT_EQ(gone.hear_byte(), kHeld);
  gone.leave();
  EXPECT_EQ(leader_->next_of_front(), Deed::kLetGo);
  expect_idle(*leader_);
}

TEST_F(HeldLines, AProbeIsIgnoredByWhoLives) {
  hold_ends({kNode});
  leader_->run_lines([](Lifelines& lines, Holder&) { lines.probe(kNode); });
  node_.run_lines([](Lifelines& lines, Holder&) { lines.probe(kLeadership.leader); });
  expect_nothing_told();
  // Another node's line is the next report of the leader.
  const RawAgent other(*leader_, opening_by(kMarker));
  expect_opened(*leader_, kMarker);
  leader_->run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  expect_goodbye(node_, kLeadership);
}

TEST_F(HeldLines, AProbeFindsALeaderWhoseKernelKnowsNothing) {
  std::vector<Descriptor> worker = hold_ends({kNode});
  if (!lose_power(worker.at(0))) GTEST_SKIP() << "TCP_REPAIR needs CAP_NET_ADMIN";
  leader_.reset();
  worker.clear();
  expect_nothing_told();
  node_.run_lines([](Lifelines& lines, Holder&) { lines.probe(kLeadership.leader); });
  expect_goodbye(node_, kLeadership);
}

TEST_F(LifelinesTest, AProbeFindsANodeWhoseKernelKnowsNothing) {
  Descriptor worker = inherited_line(*node_);
  if (!lose_power(worker)) GTEST_SKIP() << "TCP_REPAIR needs CAP_NET_ADMIN";
  node_.reset();
  worker.reset();
  expect_nothing_told();
  leader_.run_lines([](Lifelines& lines, Holder&) { lines.probe(kNode); });
  expect_ended(kNode);
}

TEST_F(LifelinesTest, WordsOnALineProveNothing) {
  RawAgent speaker(leader_, opening_by(kMarker) + "hello");
  expect_opened(leader_, kMarker);
  EXPECT_EQ(leader_.next_of_front(), Deed::kLetGo);
  EXPECT_TRUE(speaker.is_closed());
  expect_dropped(leader_, kMarker);
  expect_nothing_told();
}

TEST_F(LifelinesTest, AForeignLineIsClosed) {
  for (const std::string& opening :
       {opening_by(kNode, "another job"),
        std::string("\xDDRL\x01"),
        std::string(opening_of(Protocol::kLifeline)) + RawAgent::framed("{}"),
        std::string(opening_of(Protocol::kLifeline)) + std::string(4, '\xFF')}) {
    EXPECT_TRUE(RawAgent(leader_, opening).is_closed());
  }
  expect_nothing_told();
}

TEST_F(LifelinesTest, ALineThatTheGuardDoesNotHoldIsNotOpened) {
  node_->run_lines([](Lifelines&, Holder& guard) { guard.refuse(); });
  open(kNext);
  node_->run_lines([](Lifelines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
  expect_nothing_told();
}

TEST_F(LifelinesTest, ALineToNobodyIsGivenUp) {
  const Endpoint gone = [] {
    const RunningAgent other;
    return other.endpoint();
  }();
  node_->run_lines([&](Lifelines& lines, Holder&) { lines.open_line(gone, kNext, kNode); });
  EXPECT_EQ(node_->next_of_front(), Deed::kHeldLine);
  EXPECT_EQ(node_->next_of_front(), Deed::kLetGo);
  node_->run_lines([](Lifelines& lines, Holder&) { EXPECT_EQ(lines.lines().size(), 1U); });
}

// Incarnations are in /status for everybody to read. A foreign line in the name of a node whose own
// line was not open at that moment made its end a proof of a death that never was.
TEST(Lifelines, AForeignNodeWithoutTheSecretCannotFakeADeath) {
  RunningAgent leader({}, {}, kSecret);
  const LifelineHello genuine{.job = "j", .node = kNode, .leadership = kLeadership, .proof = {}};
  LifelineHello earlier = genuine;
  earlier.leadership.term -= 1;
  const Mac mac = load_mac(kSecret).value();
  const Mac guess = load_mac("another secret, as long").value();
  const std::function<std::string(const std::string&)> proofs[] = {
      [](const std::string&) { return std::string(); },
      [&](const std::string& nonce) { return line_proof(guess, nonce, genuine); },
      [&](const std::string& nonce) { return line_proof(mac, nonce, earlier); },
      [&](const std::string&) { return line_proof(mac, std::string(32, '0'), genuine); }};
  for (const auto& proof : proofs) {
    RawAgent liar(leader, opening_of(Protocol::kLifeline));
    LifelineHello hello = genuine;
    hello.proof = proof(nonce_of_line(liar.hear_frame()).value());
    liar.say_bytes(RawAgent::framed(encode(hello)));
    EXPECT_TRUE(liar.is_closed());
  }
  {
    RunningAgent node({}, {}, kSecret);
    node.run_lines([&](Lifelines& lines, Holder&) {
      lines.open_line(leader.endpoint(), kLeadership, kNode, mac);
    });
    expect_opened(leader, kNode);  // the first report of all
  }
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineEnded>(*event));
  EXPECT_EQ(std::get<Lifelines::LifelineEnded>(*event).node, kNode);
}

// Whoever has recorded the line of a node could open it again, while the node's own line is not
// open, and close it: a proof of a death that never was.
TEST(Lifelines, ARecordedLineCannotBeOpenedAgain) {
  RunningAgent leader({}, {}, kSecret);
  const Mac mac = load_mac(kSecret).value();
  LifelineHello hello{.job = "j", .node = kNode, .leadership = kLeadership, .proof = {}};
  {
    RawAgent node(leader, opening_of(Protocol::kLifeline));
    hello.proof = line_proof(mac, nonce_of_line(node.hear_frame()).value(), hello);
    node.say_bytes(RawAgent::framed(encode(hello)));
    expect_opened(leader, kNode);
  }
  const auto ended = leader.next_of_lines();
  ASSERT_TRUE(ended && std::holds_alternative<Lifelines::LifelineEnded>(*ended));
  RawAgent replayed(leader, opening_of(Protocol::kLifeline));
  replayed.say_bytes(RawAgent::framed(encode(hello)));
  EXPECT_TRUE(nonce_of_line(replayed.hear_frame()));
  EXPECT_TRUE(replayed.is_closed());
}

void open_line(
    RunningAgent& node,
    const RunningAgent& leader,
    Incarnation incarnation,
    const Mac& mac,
    const Leadership& to = kLeadership) {
  node.run_lines(
      [&](Lifelines& lines, Holder&) { lines.open_line(leader.endpoint(), to, incarnation, mac); });
  EXPECT_EQ(node.next_of_front(), Deed::kHeldLine);
}

// It ended the watch on all lines, also of those that came later: no death was proved any more.
TEST(Lifelines, AnExceptionInTheWorkForOneLineClosesThatLineAlone) {
  Failures failures;
  RunningAgent leader({}, {}, brittle_key(failures, kSecret), open_in_background);
  const Mac mac = load_mac(kSecret).value();
  RunningAgent later({}, {}, kSecret);
  {
    RunningAgent earlier({}, {}, kSecret);
    open_line(earlier, leader, kNode, mac);
    expect_opened(leader, kNode);
    RunningAgent unlucky({}, {}, kSecret);
    failures.in_use = true;
    open_line(unlucky, leader, kMarker, mac);
    EXPECT_EQ(unlucky.next_of_front(), Deed::kLetGo);
    open_line(later, leader, kNext.leader, mac);
    expect_opened(leader, kNext.leader);
  }
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineEnded>(*event));
  EXPECT_EQ(std::get<Lifelines::LifelineEnded>(*event).node, kNode);
}

// Nor was the death of a leader.
TEST(Lifelines, AnExceptionInTheWorkForALineOfOurOwnClosesThatLineAlone) {
  Failures failures;
  RunningAgent leader({}, {}, kSecret);
  RunningAgent node({}, {}, kSecret);
  open_line(node, leader, kNode, load_mac(kSecret).value());
  expect_opened(leader, kNode);
  const Mac mac = BrittleMac(failures, kSecret);
  failures.in_use = true;
  open_line(node, leader, kNode, mac, kNext);
  EXPECT_EQ(node.next_of_front(), Deed::kLetGo);
  leader.run_lines([](Lifelines&, Holder& guard) { guard.send_goodbye(); });
  expect_goodbye(node, kLeadership);
}

TEST(Lifelines, AnExceptionOfTheHandlerOfEventsEndsTheProcess) {
  const auto die = [] {
    report_uncaught_exceptions();
    RunningAgent leader;
    leader.handle_lines([](const Lifelines::Event&) { throw std::logic_error("a bug of ours"); });
    const RawAgent node(leader, opening_by(kNode));
    leader.next_of_lines();
  };
  EXPECT_EXIT(die(), ::testing::ExitedWithCode(kExitDefect), "a bug of ours");
}

TEST(Lifelines, ALeaderThatSendsNoNonceIsGivenUp) {
  const RunningAgent leader;  // of a job whose nodes prove nothing
  RunningAgent node({.handshake = 50ms}, {}, kSecret);
  node.run_lines([&](Lifelines& lines, Holder&) {
    lines.open_line(leader.endpoint(), kLeadership, kNode, load_mac(kSecret).value());
  });
  EXPECT_EQ(node.next_of_front(), Deed::kHeldLine);
  EXPECT_EQ(node.next_of_front(), Deed::kLetGo);
}

TEST(Lifelines, WhoSaysNothingIsClosed) {
  const RunningAgent leader({.handshake = 50ms});
  RawAgent silent(leader, opening_of(Protocol::kLifeline));
  EXPECT_TRUE(silent.is_closed());
}

TEST(Lifelines, StrangersWithoutAHelloMakeWayForNodes) {
  RunningAgent leader({.connections_max = 2});
  RawAgent held(leader, opening_by(kNode));
  expect_opened(leader, kNode);
  RawAgent silent(leader, opening_of(Protocol::kLifeline));
  const RawAgent newcomer(leader, opening_by(kMarker));
  expect_opened(leader, kMarker);
  EXPECT_TRUE(silent.is_closed());
  // Both lines are held: a third one is turned away, and neither ends.
  EXPECT_TRUE(RawAgent(leader, opening_of(Protocol::kLifeline)).is_closed());
  held.leave();
  const auto event = leader.next_of_lines();
  ASSERT_TRUE(event && std::holds_alternative<Lifelines::LifelineEnded>(*event));
  EXPECT_EQ(std::get<Lifelines::LifelineEnded>(*event).node, kNode);
}

TEST(Lifelines, ManyHellosCutAnywhereAreTold) {
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
