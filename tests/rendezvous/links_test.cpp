// Agents' connections over real sockets: what is reported, in which order, and what does no harm.

#include "rendezvous/links.hpp"

#include "base/exit_status.hpp"
#include "base/run_main.hpp"
#include "rendezvous/load_mac.hpp"
#include "tests/rendezvous/brittle_mac.hpp"
#include "tests/rendezvous/running_agent.hpp"
#include "tests/rendezvous/sample_messages.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>

namespace ddprun {
namespace {

Redirect redirect() {
  Redirect out;
  out.job = "j";
  out.leadership.term = 2;
  out.leader = {.host = "", .port = 7};
  return out;
}

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Link kCall{1};

Hello hello_of(const std::string& host = "") {
  Hello hello;
  hello.job = "j";
  hello.node.listens = {.host = host, .port = 4'711};
  return hello;
}

/// A leader, and a member that has called it.
class LinksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    member_.call(kCall, leader_.endpoint());
    ASSERT_EQ(member_.next_is<Links::Connected>(), kCall);
    member_.send(kCall, hello_of());
    hello_ = leader_.hears<Hello>(&caller_);
  }

  RunningAgent leader_;
  RunningAgent member_;
  Link caller_{};  // the member's link, at the leader
  Hello hello_;    // as it arrived
};

TEST_F(LinksTest, ACallerIsFirstHeardOfByHisHelloAndHasAnEvenLink) {
  EXPECT_EQ(static_cast<std::uint64_t>(caller_) % 2, 0U);
  EXPECT_EQ(hello_.job, "j");
}

TEST_F(LinksTest, AHostThatIsNotSaidIsSeenFromOutside) {
  EXPECT_EQ(hello_.node.listens.host, "127.0.0.1");
  EXPECT_EQ(hello_.node.listens.port, 4'711);
  Welcome welcome;
  leader_.send(caller_, welcome);
  EXPECT_EQ(member_.hears<Welcome>().leader.listens.host, "127.0.0.1");
  leader_.send(caller_, OfferRound());
  EXPECT_EQ(member_.hears<OfferRound>().master.host, "127.0.0.1");
  welcome.leader.listens.host = "n1";
  leader_.send(caller_, welcome);
  EXPECT_EQ(member_.hears<Welcome>().leader.listens.host, "n1");
}

TEST_F(LinksTest, ALeaderThatDoesNotKnowItsOwnAddressIsWhereItWasHeard) {
  leader_.send(caller_, redirect());
  EXPECT_EQ(member_.hears<Redirect>().leader.to_string(), "127.0.0.1:7");
}

TEST_F(LinksTest, EachMessageArrivesInOrder) {
  for (const Message& message : sample_messages()) {
    if (!std::holds_alternative<Hello>(message)) leader_.send(caller_, message);
  }
  for (Message message : sample_messages()) {
    if (std::holds_alternative<Hello>(message)) continue;
    if (auto* const refuse = std::get_if<Refuse>(&message)) {  // includes the sender
      refuse->why = leader_.endpoint().to_string() + ": " + refuse->why;
    }
    const auto event = member_.next();
    ASSERT_TRUE(event && std::holds_alternative<Links::Received>(*event));
    EXPECT_EQ(std::get<Links::Received>(*event).message, message);
  }
}

TEST_F(LinksTest, WhatWasSentBeforeACloseArrives) {
  leader_.run([&](Links& links) {
    links.send(caller_, Refuse{.job = {}, .exit_status = 2, .why = std::string(4'000, 'x')});
    links.close(caller_);
    links.send(caller_, VoteRequest{.term = 1});  // too late
  });
  EXPECT_EQ(member_.hears<Refuse>().exit_status, 2);
  EXPECT_EQ(member_.next_is<Links::Closed>(), kCall);
}

TEST_F(LinksTest, TheEndOfALinkIsToldOnceAndToTheOtherSideAlone) {
  member_.close(kCall);
  EXPECT_EQ(leader_.next_is<Links::Closed>(), caller_);
  // Any report about the old link would come before this.
  member_.call(Link{3}, leader_.endpoint());
  EXPECT_EQ(member_.next_is<Links::Connected>(), Link{3});
  member_.send(Link{3}, hello_of());
  Link again{};
  leader_.hears<Hello>(&again);
  EXPECT_NE(again, caller_);
}

TEST_F(LinksTest, WhatWasSentBeforeLeavingArrives) {
  leader_.run([&](Links& links) { links.send(caller_, VoteRequest{.term = 7}); });
  leader_.stop();
  EXPECT_EQ(member_.hears<VoteRequest>().term, 7);
  EXPECT_EQ(member_.next_is<Links::Closed>(), kCall);
}

TEST_F(LinksTest, AnAgentThatIsNoMoreClosesItsLinks) {
  {
    RawAgent other(leader_);
    other.say(hello_of());
    Link link{};
    leader_.hears<Hello>(&link);
    EXPECT_NE(link, caller_);
  }
  EXPECT_NE(leader_.next_is<Links::Closed>(), caller_);
}

TEST_F(LinksTest, WhoLeadsMayCallToSayOnlyWhereItIs) {
  member_.call(Link{3}, leader_.endpoint());
  EXPECT_EQ(member_.next_is<Links::Connected>(), Link{3});
  member_.run([](Links& links) {
    links.send(Link{3}, redirect());
    links.close(Link{3});
  });
  const auto told = leader_.hears<Redirect>();
  EXPECT_EQ(told.leadership.term, 2);
  EXPECT_EQ(told.leader, (Endpoint{.host = "127.0.0.1", .port = 7}));
}

TEST_F(LinksTest, ASecondHelloEndsTheLink) {
  member_.send(kCall, hello_of());
  EXPECT_EQ(leader_.next_is<Links::Closed>(), caller_);
  EXPECT_EQ(member_.next_is<Links::Closed>(), kCall);
}

TEST_F(LinksTest, ACallNobodyTakesIsClosed) {
  const Endpoint gone = [] {
    const RunningAgent other;
    return other.endpoint();
  }();
  member_.call(Link{3}, gone);
  const auto refused = member_.next();
  ASSERT_TRUE(refused && std::holds_alternative<Links::Closed>(*refused));
  EXPECT_THAT(std::get<Links::Closed>(*refused).why.detail, HasSubstr(gone.to_string()));
  member_.call(Link{5}, {.host = "no such host.invalid", .port = 1});
  const auto unknown = member_.next();
  ASSERT_TRUE(unknown && std::holds_alternative<Links::Closed>(*unknown));
  EXPECT_EQ(std::get<Links::Closed>(*unknown).link, Link{5});
  EXPECT_THAT(std::get<Links::Closed>(*unknown).why.detail, HasSubstr("no such host"));
}

TEST_F(LinksTest, ANameIsLookedUpAndEachOfItsAddressesTried) {
  // localhost may resolve to ::1 first, where no socket listens.
  member_.call(Link{3}, {.host = "localhost", .port = leader_.endpoint().port});
  EXPECT_EQ(member_.next_is<Links::Connected>(), Link{3});
}

TEST_F(LinksTest, NothingIsToldOfACallThatWasGivenUp) {
  member_.run([&](Links& links) {
    links.call(Link{3}, leader_.endpoint());
    links.close(Link{3});
    links.call(Link{5}, {.host = "localhost", .port = leader_.endpoint().port});
    links.close(Link{5});
    links.call(Link{7}, leader_.endpoint());
  });
  EXPECT_EQ(member_.next_is<Links::Connected>(), Link{7});
}

TEST(Links, OneMayAnswerWhileItIsTold) {
  RunningAgent leader({}, [](Links& links, const Links::Event& event) {
    const auto* const received = std::get_if<Links::Received>(&event);
    if (received == nullptr) return;
    links.send(received->link, VoteRequest{.term = 1});
    links.send(received->link, VoteRequest{.term = 2});
    links.close(received->link);
  });
  RawAgent caller(leader);
  caller.say_bytes(RawAgent::framed(encode(hello_of())) + RawAgent::framed(encode(Heartbeat())));
  EXPECT_EQ(std::get<VoteRequest>(caller.hear().value()).term, 1);
  EXPECT_EQ(std::get<VoteRequest>(caller.hear().value()).term, 2);
  EXPECT_TRUE(caller.is_closed());
  leader.hears<Hello>();
  RawAgent next(leader);
  next.say(hello_of());
  leader.hears<Hello>();  // and not the heartbeat, since that link was closed
}

TEST(Links, AStreamMayBeCutAnywhere) {
  RunningAgent leader;
  RawAgent caller(leader, "");
  const std::string stream = std::string(opening_of(Protocol::kAgent)) +
                             RawAgent::framed(encode(hello_of("n1"))) +
                             RawAgent::framed(encode(Heartbeat{.number = 1, .heard = 0}));
  for (const char byte : stream) {
    caller.say_bytes(std::string_view(&byte, 1));
  }
  EXPECT_EQ(leader.hears<Hello>().node.listens.host, "n1");
  EXPECT_EQ(leader.hears<Heartbeat>().number, 1);
}

/// More than is read at once, followed by the end: a ready connection is reported only once.
TEST(Links, AFloodAndTheEndOfItsLinkAreReadToTheLast) {
  constexpr std::int64_t kBeats = 10'000;
  std::string flood = RawAgent::framed(encode(hello_of("n1")));
  for (std::int64_t number = 1; number <= kBeats; ++number) {
    flood += RawAgent::framed(encode(Heartbeat{.number = number, .heard = 0}));
  }
  RunningAgent leader;
  {
    RawAgent caller(leader);
    caller.say_bytes(flood);
  }
  Link link{};
  leader.hears<Hello>(&link);
  for (std::int64_t number = 1; number <= kBeats; ++number) {
    ASSERT_EQ(leader.hears<Heartbeat>().number, number);
  }
  EXPECT_EQ(leader.next_is<Links::Closed>(), link);
}

TEST(Links, AnotherVersionIsToldBothVersions) {
  const RunningAgent leader;
  RawAgent other(leader, "\xDDRN\x01");
  const auto answer = other.hear();
  ASSERT_TRUE(answer);
  EXPECT_THAT(std::get<Refuse>(*answer).why, HasSubstr("version 5"));
  EXPECT_THAT(std::get<Refuse>(*answer).why, HasSubstr("version 1"));
  EXPECT_TRUE(other.is_closed());
}

constexpr char kSecret[] = "correct horse battery staple";

TEST(Links, WithTheSameSecretAgentsConnect) {
  RunningAgent leader({}, {}, kSecret);
  RunningAgent member({}, {}, kSecret);
  member.call(kCall, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  member.send(kCall, hello_of());
  Link link{};
  EXPECT_EQ(leader.hears<Hello>(&link).job, "j");
  leader.send(link, VoteRequest{.term = 3});
  EXPECT_EQ(member.hears<VoteRequest>().term, 3);
}

/// What an agent with the secret `ours` is told when it calls one with the secret `theirs`.
std::string refusal_between(const std::string& ours, const std::string& theirs) {
  RunningAgent leader({}, {}, theirs);
  RunningAgent member({}, {}, ours);
  member.call(kCall, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  if (ours.empty()) member.send(kCall, hello_of());
  const auto refusal = member.hears<Refuse>();
  EXPECT_EQ(refusal.exit_status, 2);
  EXPECT_EQ(member.next_is<Links::Closed>(), kCall);
  // The leader got no earlier report: this is the first caller.
  RawAgent marker(leader);
  if (theirs.empty()) {
    marker.say(hello_of("marker"));
    EXPECT_EQ(leader.hears<Hello>().node.listens.host, "marker");
  }
  return refusal.why;
}

TEST(Links, WithAnotherSecretOrNoneAgentsRefuseAndSayWhatToDo) {
  const std::string remedy = "give every node of the job the same --secret-file";
  const std::string differ = refusal_between(kSecret, "another secret, as long");
  EXPECT_THAT(differ, HasSubstr("the secrets of the two nodes differ"));
  EXPECT_THAT(differ, HasSubstr(remedy));
  const std::string none = refusal_between("", kSecret);
  EXPECT_THAT(none, HasSubstr("the caller does not authenticate"));
  EXPECT_THAT(none, HasSubstr(remedy));
  const std::string one = refusal_between(kSecret, "");
  EXPECT_THAT(one, HasSubstr("the node that it called does not authenticate"));
  EXPECT_THAT(one, HasSubstr(remedy));
}

TEST(Links, WhoNeverProvesTheSecretIsClosed) {
  const RunningAgent leader({.handshake = 50ms}, {}, kSecret);
  RawAgent silent(leader);
  silent.say_bytes(RawAgent::framed("challenge secret " + std::string(32, 'a')));
  EXPECT_EQ(silent.hear_frame().substr(0, 9), "response ");
  EXPECT_EQ(silent.hear_byte(), '\0');
}

// It ended all links, and those that came later, while the agent lived on.
TEST(Links, AnExceptionInTheWorkForOneLinkClosesThatLinkAlone) {
  Failures failures;
  RunningAgent leader({}, {}, brittle_key(failures, kSecret), open_in_background);
  RunningAgent member({}, {}, kSecret);
  member.call(kCall, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  member.send(kCall, hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  RunningAgent other({}, {}, kSecret);
  failures.in_use = true;
  other.call(kCall, leader.endpoint());
  EXPECT_EQ(other.next_is<Links::Closed>(), kCall);
  other.call(Link{3}, leader.endpoint());
  EXPECT_EQ(other.next_is<Links::Connected>(), Link{3});
  leader.send(link, VoteRequest{.term = 3});
  EXPECT_EQ(member.hears<VoteRequest>().term, 3);
}

// Between the connection and its link: the call was neither reported nor forgotten.
TEST(Links, ACallWhoseWorkThrowsIsReportedAsClosed) {
  const RunningAgent leader({}, {}, kSecret);
  Failures failures;
  RunningAgent member({}, {}, brittle_key(failures, kSecret), open_in_background);
  failures.in_copying = true;
  member.call(kCall, leader.endpoint());
  const auto event = member.next();
  ASSERT_TRUE(event && std::holds_alternative<Links::Closed>(*event));
  EXPECT_EQ(std::get<Links::Closed>(*event).link, kCall);
  EXPECT_EQ(
      std::get<Links::Closed>(*event).why.detail,
      leader.endpoint().to_string() + ": internal error: std::bad_alloc");
  member.call(Link{3}, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), Link{3});
}

TEST(Links, AnExceptionOfTheHandlerOfEventsEndsTheProcess) {
  const auto die = [] {
    report_uncaught_exceptions();
    RunningAgent leader(
        {}, [](Links&, const Links::Event&) { throw std::logic_error("a bug of ours"); });
    RawAgent caller(leader);
    caller.say(hello_of());
    leader.next();
  };
  EXPECT_EXIT(die(), ::testing::ExitedWithCode(kExitDefect), "a bug of ours");
}

/// The key of a node with MUNGE. Its credential is no real one; tests/slurm has those.
AuthKey munge_key(const std::string& key) {
  return {
      .method = AuthMethod::kMunge, .mac = load_mac(key).value(), .credential = "sealed:" + key};
}

/// Opens such a credential.
asio::awaitable<Result<Mac>> open_sealed(std::string credential, TimePoint /*deadline*/) {
  co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
  co_return load_mac(credential.substr(credential.find(':') + 1));
}

asio::awaitable<Result<Mac>> open_none(std::string /*credential*/, TimePoint /*deadline*/) {
  co_return make_error(Errc::kProtocol, "MUNGE: Invalid credential");
}

asio::awaitable<Result<Mac>> open_late(std::string /*credential*/, TimePoint /*deadline*/) {
  co_return make_error(Errc::kTimedOut, "MUNGE: munged does not answer here");
}

TEST(Links, WithMungeAgentsConnectByTheKeyOfTheCalledOne) {
  RunningAgent leader({}, {}, munge_key("leader's"), open_sealed);
  RunningAgent member({}, {}, munge_key("member's"), open_sealed);
  member.call(kCall, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  member.send(kCall, hello_of());
  EXPECT_EQ(leader.hears<Hello>().job, "j");
  const Mac leaders = load_mac("leader's").value();
  member.run([&](Links& links) { EXPECT_EQ(links.mac_of(kCall)("x"), leaders("x")); });
}

TEST(Links, ANodeOfAnotherUserIsRefused) {
  const RunningAgent leader({}, {}, munge_key("leader's"), open_sealed);
  RunningAgent member({}, {}, munge_key("member's"), open_none);
  member.call(kCall, leader.endpoint());
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  const auto refusal = member.hears<Refuse>();
  EXPECT_EQ(refusal.exit_status, 2);
  EXPECT_THAT(refusal.why, HasSubstr("peer did not authenticate: MUNGE: Invalid credential; "));
  EXPECT_EQ(member.next_is<Links::Closed>(), kCall);
}

// A daemon that hangs may answer the next time, so the node goes on looking for its job.
TEST(Links, ACallIsOnlyClosedIfMungeDoesNotAnswer) {
  const RunningAgent leader({}, {}, munge_key("leader's"), open_sealed);
  RunningAgent member({}, {}, munge_key("member's"), open_late);
  member.call(kCall, leader.endpoint());
  const auto event = member.next();
  ASSERT_TRUE(event && std::holds_alternative<Links::Closed>(*event));
  EXPECT_FALSE(std::get<Links::Closed>(*event).is_foreign);
  EXPECT_THAT(std::get<Links::Closed>(*event).why.detail, HasSubstr("munged does not answer"));
}

TEST(Links, ACallCanBeGivenUpWhileMungeOpensTheKey) {
  const RunningAgent leader({}, {}, munge_key("leader's"), open_sealed);
  std::promise<void> asked;
  const auto open_never =
      // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives its calls
      [&asked](std::string /*credential*/, TimePoint /*deadline*/) -> asio::awaitable<Result<Mac>> {
    asked.set_value();
    Timer never(co_await asio::this_coro::executor, kNever);
    co_await never.async_wait(kTuple);
    co_return make_error(Errc::kTimedOut, "it was cancelled");
  };
  RunningAgent member({}, {}, munge_key("member's"), open_never);
  member.call(kCall, leader.endpoint());
  asked.get_future().wait();
  member.close(kCall);
  member.stop();  // joins what waits for the key
}

TEST(Links, AMungeNodeAndOneWithoutRefuseEachOtherWithBothNamed) {
  const auto refusal_of = [](const AuthKey& ours, const AuthKey& theirs) {
    const RunningAgent leader({}, {}, theirs, open_sealed);
    RunningAgent member({}, {}, ours, open_sealed);
    member.call(kCall, leader.endpoint());
    EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
    if (ours.method == AuthMethod::kNone) member.send(kCall, hello_of());
    return member.hears<Refuse>().why;
  };
  EXPECT_THAT(
      refusal_of(munge_key("m"), AuthKey()),
      HasSubstr("the caller authenticates with MUNGE, and the node that it called does not"));
  EXPECT_THAT(
      refusal_of(AuthKey(), munge_key("m")),
      HasSubstr(
          "the caller does not authenticate, and the node that it called authenticates with"));
  EXPECT_THAT(
      refusal_of(munge_key("m"), key_of(kSecret)),
      HasSubstr("the caller authenticates with MUNGE, and the node that it called has a secret"));
}

// A leader that starts its own workers first would delay those of its followers.
TEST(Links, WhatAHandlerOfEventsHasWrittenCanLeaveBeforeItReturns) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket caller(context);
  caller.connect(acceptor.local_endpoint());
  Descriptor called(acceptor.accept().release());
  std::unique_ptr<Links> links;
  asio::cancellation_signal end;
  pollfd arrived{.fd = caller.native_handle(), .events = POLLIN, .revents = 0};
  int at_once = -1;
  int when_asked = -1;
  const auto on_event = [&](const Links::Event& event) {
    const auto* const received = std::get_if<Links::Received>(&event);
    if (received == nullptr) return;  // the end of the link, below
    links->send(received->link, VoteRequest{.term = 3});
    at_once = poll(&arrived, 1, 0);
    links->send_written();
    when_asked = poll(&arrived, 1, 1'000);
    caller.close();
    asio::post(context, [&end] { end.emit(asio::cancellation_type::terminal); });
  };
  links = std::make_unique<Links>(context, LinkLimits(), on_event);
  const auto ended = [](const std::exception_ptr& thrown) {
    if (thrown) std::terminate();
  };
  asio::co_spawn(context, links->serve(), asio::bind_cancellation_slot(end.slot(), ended));
  std::string hello(opening_of(Protocol::kAgent));
  hello += RawAgent::framed(encode(hello_of()));
  links->adopt(std::move(called), hello);
  context.run();
  EXPECT_EQ(at_once, 0);
  EXPECT_EQ(when_asked, 1);
}

// A node that is told the end of its link calls again at once; the leader was left waiting for it.
TEST(Links, ACallerWhoComesWhenTheLastLinkIsClosedAtTheEndIsClosedAsWell) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket first(context);
  asio::ip::tcp::socket second(context);
  const auto adopt = [&](asio::ip::tcp::socket& caller, Links& links) {
    caller.connect(acceptor.local_endpoint());
    links.adopt(Descriptor(acceptor.accept().release()), "");
  };
  LinkLimits limits;
  limits.handshake = 2 * kAgentPatience;
  Links links(context, limits, [](const Links::Event&) {});
  asio::cancellation_signal end;
  bool has_ended = false;
  const auto ended = [&](const std::exception_ptr& thrown) {
    if (thrown) std::terminate();
    has_ended = true;
  };
  asio::co_spawn(context, links.serve(), asio::bind_cancellation_slot(end.slot(), ended));
  adopt(first, links);
  context.poll();
  end.emit(asio::cancellation_type::terminal);
  context.poll();
  // Always in the queue, so it runs between the end of the first and what that makes run.
  std::function<void()> call_again = [&] {
    if (links.connections() > 0) return asio::post(context, call_again);
    adopt(second, links);
  };
  asio::post(context, call_again);
  first.close();
  context.run_for(kAgentPatience);
  EXPECT_TRUE(has_ended);
}

TEST(Links, AForeignClientIsClosedAndTheOthersAreUnharmed) {
  RunningAgent leader;
  RawAgent member(leader);
  member.say(hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  for (const std::string& bytes :
       {RawAgent::framed("no JSON"),
        RawAgent::framed(encode(Heartbeat())),
        RawAgent::framed(R"({"type":"hello"})"),
        std::string("\xFF\xFF\xFF\xFF"),
        std::string("GET / HTTP/1.1\r\n\r\n")}) {
    RawAgent stranger(leader);
    stranger.say_bytes(bytes);
    while (stranger.hear()) {}  // a refusal, perhaps
  }
  leader.send(link, VoteRequest{.term = 3});
  EXPECT_EQ(std::get<VoteRequest>(member.hear().value()).term, 3);
}

TEST(Links, WhoNeverSaysHelloIsClosed) {
  const RunningAgent leader({.handshake = 50ms});
  RawAgent silent(leader);
  EXPECT_TRUE(silent.is_closed());
}

TEST(Links, WhoDoesNotReadIsClosed) {
  RunningAgent leader({.unsent_bytes_max = 10'000});
  RawAgent deaf(leader);
  deaf.say(hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  leader.run([&](Links& links) {
    // More than the sockets of both sides hold.
    for (int i = 0; i < 10'000; ++i) {
      links.send(link, Refuse{.job = {}, .exit_status = 2, .why = std::string(4'000, 'x')});
    }
  });
  EXPECT_EQ(leader.next_is<Links::Closed>(), link);
}

TEST(Links, WhoReadsNothingForTooLongIsClosed) {
  RunningAgent leader({.unsent_bytes_max = 100'000'000, .slow_reader = 50ms});
  RawAgent deaf(leader);
  deaf.say(hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  leader.run([&](Links& links) {
    for (int i = 0; i < 10'000; ++i) {
      links.send(link, Refuse{.job = {}, .exit_status = 2, .why = std::string(4'000, 'x')});
    }
  });
  EXPECT_EQ(leader.next_is<Links::Closed>(), link);
}

TEST(Links, MoreThanTheLimitAreTurnedAway) {
  RunningAgent leader({.connections_max = 1});
  RawAgent first(leader);
  first.say(hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  RawAgent second(leader);
  EXPECT_TRUE(second.is_closed());
  leader.send(link, VoteRequest{.term = 3});
  EXPECT_EQ(std::get<VoteRequest>(first.hear().value()).term, 3);
}

TEST(Links, StrangersWithoutAHelloMakeWayForNewcomersAndMembersStay) {
  RunningAgent leader({.connections_max = 3});
  RawAgent member(leader);
  member.say(hello_of());
  Link link{};
  leader.hears<Hello>(&link);
  RawAgent first(leader);
  const RawAgent second(leader);
  RawAgent newcomer(leader);
  newcomer.say(hello_of());
  leader.hears<Hello>();
  EXPECT_TRUE(first.is_closed());
  leader.send(link, VoteRequest{.term = 3});
  EXPECT_EQ(std::get<VoteRequest>(member.hear().value()).term, 3);
}

TEST(Links, WhatIsNoAgentAtTheEndpointIsNotTakenForOne) {
  RunningAgent member;
  auto listening = listen_on({.host = "127.0.0.1", .port = 0}).value();
  const std::uint16_t port = port_of(listening.front().get());
  member.call(kCall, {.host = "127.0.0.1", .port = port});
  EXPECT_EQ(member.next_is<Links::Connected>(), kCall);
  Acceptor acceptor;
  Descriptor accepted;
  ASSERT_EQ(acceptor.accept(listening.front().get(), accepted), Acceptor::Outcome::kAccepted);
  ASSERT_TRUE(write_all(accepted.get(), "SSH-2.0-OpenSSH_9.2\r\n"));
  EXPECT_EQ(member.next_is<Links::Closed>(), kCall);
}

}  // namespace
}  // namespace ddprun
