// The conformance groups of the store over real sockets: A opening, B framing, C values, D waiting,
// E queues, F barrier, G robustness, H attempts. What needs no socket is in store_test.cpp.

#include "rendezvous/store_server.hpp"

#include "tests/rendezvous/golden_frames.hpp"
#include "tests/rendezvous/running_store.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <random>
#include <set>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;

std::int64_t number_in(const std::string& bytes) {
  std::int64_t value = -1;
  if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

class StoreServerTest : public ::testing::Test {
 protected:
  /// Whatever the test did, other clients are still served.
  void TearDown() override {
    if (!served_) return;
    RawClient other(store_);
    EXPECT_TRUE(other.has_heard_all());
  }

  RunningStore store_;
  bool served_ = true;
};

TEST_F(StoreServerTest, A1OpensInOnePieceAndInThree) {
  RawClient whole(store_, validate() + ping(5) + add("init/", 1));
  EXPECT_EQ(whole.hear(12), u32(5) + i64(1));
  RawClient parts(store_);
  EXPECT_EQ(parts.ask(ping(6), 4), u32(6));
  EXPECT_EQ(parts.ask(add("init/", 1), 8), i64(2));
}

TEST_F(StoreServerTest, A2AcceptsAValidateCutAnywhere) {
  const std::string opening = validate();
  for (std::size_t cut = 1; cut < opening.size(); ++cut) {
    RawClient client(store_, opening.substr(0, cut));
    RawClient meanwhile(store_);
    EXPECT_TRUE(meanwhile.has_heard_all());
    client.say(opening.substr(cut));
    EXPECT_TRUE(client.has_heard_all()) << cut;
  }
}

TEST_F(StoreServerTest, A4ClosesOnAWrongMagicAndASecondValidate) {
  EXPECT_TRUE(RawClient(store_, hex("00 00000000")).is_closed());
  EXPECT_TRUE(RawClient(store_, hex("00 3C85F7CE")).is_closed());
  EXPECT_TRUE(RawClient(store_, validate() + validate()).is_closed());
}

TEST_F(StoreServerTest, A5ClosesForeignClientsAndExecutesNothing) {
  for (const std::string& opening :
       {set("x", "1"),
        num_keys(),
        op(0xFF),
        hex("160301020001000"),
        hex("DD524E01"),
        op(3) + str("init/") + i64(1)}) {
    EXPECT_TRUE(RawClient(store_, opening).is_closed());
  }
  RawClient client(store_);
  EXPECT_EQ(client.ask(num_keys(), 8), i64(0));
}

TEST(StoreServer, A6ClosesWhoNeverValidatesAndKeepsWhoDid) {
  const RunningStore store({.handshake = 50ms});
  RawClient silent(store, "");
  RawClient greeted(store);
  RawClient half(store, validate().substr(0, 2));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(half.is_closed());
  EXPECT_TRUE(greeted.has_heard_all());
}

TEST_F(StoreServerTest, B1AnswersTheGoldenFramesByteByByteAndInOneSegment) {
  std::string requests;
  std::string replies;
  for (const auto& frame : kGoldenFrames) {
    requests += hex(frame.request);
    replies += hex(frame.reply);
  }
  RawClient slow(store_, "");
  for (const char byte : requests) {
    slow.say(std::string_view(&byte, 1));
  }
  EXPECT_EQ(slow.hear(replies.size()), replies);
  store_.ask([](StoreServer& server) {
    server.begin_round({});
    return 0;
  });
  RawClient quick(store_, requests);
  EXPECT_EQ(quick.hear(replies.size()), replies);
}

TEST_F(StoreServerTest, B2StoresALargeValueThatComesInPieces) {
  const std::string value(8'388'608, 'x');
  const std::string request = set("k", value) + get("k");
  RawClient client(store_);
  for (std::size_t at = 0; at < request.size(); at += 1'440) {
    client.say(std::string_view(request).substr(at, 1'440));
  }
  EXPECT_TRUE(client.hear(8 + value.size()) == str(value));
}

TEST_F(StoreServerTest, B5AppliesWhatIsCompleteAtTheEndAndNothingElse) {
  {
    RawClient leaver(store_);
    leaver.say(set("whole", "1"));
    leaver.leave();
    RawClient truncated(store_);
    truncated.say(set("cut", "123").substr(0, 15));
    truncated.leave();
  }
  RawClient pairs(store_);
  const std::string request = multi_set({{"a", "1"}, {"b", "2"}});
  pairs.say(request.substr(0, request.size() - 1));
  pairs.leave();
  RawClient reader(store_);
  EXPECT_EQ(reader.ask(wait({"whole"}), 1), kStop);
  EXPECT_EQ(reader.ask(num_keys(), 8), i64(1));
}

TEST_F(StoreServerTest, B5AnswersWhatCameBeforeAHalfClose) {
  RawClient client(store_);
  client.say(ping(1) + add("n", 5));
  client.end_sending();
  EXPECT_EQ(client.hear(100), u32(1) + i64(5));
}

TEST_F(StoreServerTest, SeesTheEndThatCameWithTheLastRequest) {
  // The server is kept busy meanwhile, so that request and end are both there when it reads.
  const auto client = store_.ask([this](StoreServer&) {
    auto opened = std::make_unique<RawClient>(store_, validate() + ping(7));
    opened->end_sending();
    return opened;
  });
  EXPECT_EQ(client->hear(4), u32(7));
  EXPECT_TRUE(client->is_closed());
}

TEST_F(StoreServerTest, ContinuesWithWhatItHeldBackOnceTheRepliesAreTaken) {
  constexpr std::size_t kRequests = 10'000;
  const RunningStore small({.unsent_bytes_max = 1'000});
  RawClient client(small);
  const std::string reply = str(std::string(500, 'v'));
  std::string requests = set("k", std::string(500, 'v'));
  for (std::size_t i = 0; i < kRequests; ++i) {
    requests += get("k");
  }
  std::thread speaker([&] { client.say(requests); });
  std::size_t right = 0;
  while (right < kRequests && client.hear(reply.size()) == reply) {
    ++right;
  }
  speaker.join();
  EXPECT_EQ(right, kRequests);
}

TEST_F(StoreServerTest, B6KeepsHalfARequestAndHarmsNobody) {
  RawClient half(store_);
  const std::string request = set("k", "value") + get("k");
  half.say(request.substr(0, 20));
  RawClient other(store_);
  EXPECT_TRUE(other.has_heard_all());
  half.say(request.substr(20));
  EXPECT_EQ(half.hear(13), str("value"));
}

TEST_F(StoreServerTest, B8ClosesOnHugeLengthsWhenTheyAreRead) {
  EXPECT_TRUE(RawClient(store_, validate() + op(3) + i64(INT64_MIN)).is_closed());
  EXPECT_TRUE(RawClient(store_, validate() + op(1) + str("k") + i64(-1)).is_closed());
  EXPECT_TRUE(RawClient(store_, validate() + op(10) + i64(std::int64_t{1} << 62)).is_closed());
}

TEST_F(StoreServerTest, C4CountsEveryAddOnceAndInOneOrder) {
  constexpr int kClients = 16;
  constexpr int kAdds = 1'000;
  std::string adds;
  for (int i = 0; i < kAdds; ++i) {
    adds += add("n", 1);
  }
  std::deque<RawClient> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(store_).say(adds);
  }
  std::set<std::int64_t> sums;
  for (RawClient& client : clients) {
    for (int i = 0; i < kAdds; ++i) {
      sums.insert(number_in(client.hear(8)));
    }
  }
  EXPECT_EQ(sums.size(), std::size_t{kClients} * kAdds);
  EXPECT_EQ(*sums.rbegin(), kClients * kAdds);
}

TEST_F(StoreServerTest, C5NeverShowsAMultiSetInParts) {
  Pairs pairs;
  for (int i = 0; i < 50'000; ++i) {
    pairs.emplace_back("k" + std::to_string(i), "v");
  }
  const std::string request = multi_set(pairs);
  RawClient writer(store_);
  RawClient reader(store_);
  for (std::size_t at = 0; at < request.size(); at += 50'000) {
    writer.say(std::string_view(request).substr(at, 50'000));
    const std::int64_t seen = number_in(reader.ask(num_keys(), 8));
    EXPECT_TRUE(seen == 0 || seen == 50'000) << seen;
  }
  EXPECT_TRUE(writer.has_heard_all());
  EXPECT_EQ(reader.ask(num_keys(), 8), i64(50'000));
}

TEST_F(StoreServerTest, D5AWaiterThatLeftOrWasResetHarmsNobody) {
  RawClient leaves(store_);
  RawClient resets(store_);
  RawClient stays(store_);
  for (RawClient* const client : {&leaves, &resets, &stays}) {
    client->say(wait({"k"}));
    EXPECT_TRUE(client->has_heard_all());
  }
  leaves.leave();
  resets.reset();
  RawClient writer(store_);
  EXPECT_EQ(writer.ask(set("k", "1") + ping(1), 4), u32(1));
  EXPECT_EQ(stays.hear(1), kStop);
}

TEST_F(StoreServerTest, D7ReleasesAllWhoWaitForAll) {
  constexpr int kClients = 128;
  std::vector<std::string> names;
  names.reserve(kClients);
  for (int i = 0; i < kClients; ++i) {
    names.push_back("k" + std::to_string(i));
  }
  std::deque<RawClient> clients;
  for (const std::string& name : names) {
    clients.emplace_back(store_).say(set(name, "1") + wait(names));
  }
  for (RawClient& client : clients) {
    EXPECT_EQ(client.hear(1), kStop);
  }
}

TEST_F(StoreServerTest, E2APushReleasesTheFirstThenTheSecond) {
  RawClient first(store_);
  RawClient second(store_);
  first.say(wait({"q"}));
  ASSERT_TRUE(first.has_heard_all());
  second.say(wait({"q"}));
  ASSERT_TRUE(second.has_heard_all());
  RawClient writer(store_);
  writer.say(push("q", "a"));
  EXPECT_EQ(first.hear(1), kStop);
  EXPECT_TRUE(second.has_heard_all());
  writer.say(push("q", "b"));
  EXPECT_EQ(second.hear(1), kStop);
}

TEST_F(StoreServerTest, E4PlaysPingPongOverTwoQueues) {
  RawClient here(store_);
  RawClient there(store_);
  for (int i = 0; i < 1'000; ++i) {
    const std::string item = std::to_string(i);
    here.say(push("there", item) + wait({"here"}));
    // As a client does: a POP right after the WAIT would be answered while that still waits.
    ASSERT_EQ(there.ask(wait({"there"}), 1), kStop);
    ASSERT_EQ(there.ask(pop("there"), 16 + item.size()), i64(1) + str(item));
    there.say(push("here", item));
    ASSERT_EQ(here.hear(1), kStop);
    ASSERT_EQ(here.ask(pop("here"), 16 + item.size()), i64(1) + str(item));
  }
}

TEST_F(StoreServerTest, F2ABarrierReleasesNobodyBeforeTheLast) {
  std::deque<RawClient> clients;
  for (int i = 0; i < 63; ++i) {
    clients.emplace_back(store_).say(barrier("b", 64));
    EXPECT_TRUE(clients.back().has_heard_all());
  }
  RawClient last(store_);
  EXPECT_EQ(last.ask(barrier("b", 64), 1), kStop);
  for (RawClient& client : clients) {
    EXPECT_EQ(client.hear(1), kStop);
  }
}

TEST(StoreServer, G2ClosesAReaderThatNeverReadsAndServesTheOthers) {
  RunningStore store({.unsent_bytes_max = 1U << 20U, .slow_reader = 50ms});
  RawClient writer(store);
  writer.say(set("k", std::string(8'388'608, 'x')));
  ASSERT_TRUE(writer.has_heard_all());
  RawClient greedy(store);
  for (int i = 0; i < 256; ++i) {
    greedy.say(get("k"));
  }
  while (store.ask([](StoreServer& server) { return server.connections(); }) > 1) {
    ASSERT_TRUE(writer.has_heard_all());
  }
}

TEST(StoreServer, ContinuesWithWhatItHeldBackForASlowReader) {
  const RunningStore store({.unsent_bytes_max = 1'000});
  RawClient client(store);
  const std::string value(100'000, 'x');
  std::string requests = set("k", value);
  for (int i = 0; i < 200; ++i) {
    requests += get("k");
  }
  client.say(requests + ping(9));
  client.end_sending();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client.hear(8 + value.size()) == str(value)) << i;
  }
  EXPECT_EQ(client.hear(100), u32(9));
}

TEST_F(StoreServerTest, G3SurvivesRandomStreams) {
  std::mt19937 random(7);
  for (int i = 0; i < 1'000; ++i) {
    std::string noise(random() % 200, '\0');
    for (char& byte : noise) {
      byte = static_cast<char>(random() % 3 == 0 ? random() : random() % 0x13);
    }
    RawClient client(store_);
    client.say(noise);
  }
}

TEST_F(StoreServerTest, H1AClientOfAnEarlierRoundCanNeitherReadNorWrite) {
  RawClient accepted(store_);
  EXPECT_EQ(accepted.ask(add("init/", 1), 8), i64(1));
  RawClient waiting(store_);
  waiting.say(wait({"new"}));
  ASSERT_TRUE(waiting.has_heard_all());
  const auto backlogged = store_.ask([&](StoreServer& server) {
    // Still in the backlog, since the server's thread is here.
    auto client = std::make_unique<RawClient>(store_, validate() + set("stale", "1"));
    server.begin_round({});
    return client;
  });
  EXPECT_TRUE(backlogged->is_closed());
  accepted.say(set("stale", "1"));
  EXPECT_TRUE(accepted.is_closed());
  EXPECT_TRUE(waiting.is_closed());
  RawClient next(store_);
  EXPECT_EQ(next.ask(num_keys(), 8), i64(0));
  EXPECT_EQ(next.ask(add("init/", 1), 8), i64(1));
}

TEST(StoreServer, ANewRoundClosesNoAgentNoLifelineAndNoAsker) {
  std::mutex mutex;
  std::vector<Descriptor> handed;
  StoreServerOptions options;
  options.for_agents = [&](Protocol, Descriptor socket, const std::string&) {
    const std::scoped_lock lock(mutex);
    EXPECT_TRUE(write_all(socket.get(), "taken"));
    handed.push_back(std::move(socket));
  };
  RunningStore store(std::move(options));
  RawClient undecided(store, "\xDD");
  RawClient taken(store, "\xDDRL\x01");
  EXPECT_EQ(taken.hear(5), "taken");
  RawClient asker(store, "GET /heal");
  RawClient silent(store, "");
  std::vector<std::unique_ptr<RawClient>> backlog;
  store.ask([&](StoreServer& server) {
    // Still in the backlog, since the server's thread is here.
    for (const std::string_view opening :
         {"\xDDRN\x01", "GET /healthz HTTP/1.1\r\n\r\n", "\xDDR"}) {
      backlog.push_back(std::make_unique<RawClient>(store, opening));
    }
    server.begin_round({});
    return 0;
  });
  undecided.say("RN\x01");
  EXPECT_EQ(undecided.hear(5), "taken");
  asker.say("thz HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(asker.hear(4'096).starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(backlog[0]->hear(5), "taken");
  EXPECT_TRUE(backlog[1]->hear(4'096).starts_with("HTTP/1.1 200 "));
  backlog[2]->say("L\x01");
  EXPECT_EQ(backlog[2]->hear(5), "taken");
  // It connected in the earlier round, so it belongs to that round, however late it sends.
  silent.say(validate() + ping(1));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(RawClient(store).has_heard_all());
}

// An empty list of hosts once meant that every host may write what workers unpickle.
TEST_F(StoreServerTest, OnlyWhoHasAccessMayUseTheStore) {
  using Who = StoreAccess::Who;
  const auto allow = [this](const StoreAccess& access) {
    store_.ask([&](StoreServer& server) {
      server.begin_round(access);
      return 0;
    });
  };
  // Another address of loopback is another node's.
  const auto ask_from = [this](const std::string& host) {
    RawClient client(store_, host, validate() + set("k", "1") + ping(1));
    return client.hear(4) == u32(1);
  };
  EXPECT_FALSE(ask_from("127.0.0.2")) << "before the first round";
  EXPECT_TRUE(ask_from("127.0.0.1"));
  allow({});
  EXPECT_FALSE(ask_from("127.0.0.2"));
  EXPECT_TRUE(ask_from("127.0.0.1"));
  allow({.who = Who::kNodes, .hosts = {"127.0.0.3"}});
  EXPECT_FALSE(ask_from("127.0.0.2"));
  EXPECT_TRUE(ask_from("127.0.0.3"));
  EXPECT_TRUE(ask_from("127.0.0.1")) << "the leader's own workers";
  allow({.who = Who::kNodes, .hosts = {}});
  EXPECT_FALSE(ask_from("127.0.0.3"));
  allow({.who = Who::kEveryone, .hosts = {}});
  EXPECT_TRUE(ask_from("127.0.0.3"));
}

// Two hundred clients that began a request of 256 MiB each and never ended it took 50 GiB.
TEST(StoreServer, ClosesTheConnectionWhoseRequestExceedsWhatAllMayHold) {
  const RunningStore store(StoreLimits{.held_bytes_max = 1U << 20U});
  const std::string most(600'000, 'x');
  const std::string begun = validate() + op(1) + str("k") + i64(1'000'000) + most;
  RawClient first(store, begun);
  RawClient bystander(store, validate() + ping(1));
  EXPECT_EQ(bystander.hear(4), u32(1));
  RawClient second(store, begun);
  EXPECT_TRUE(second.is_closed());
  bystander.say(ping(2));
  EXPECT_EQ(bystander.hear(4), u32(2));
  // The first one ends its request, and what it held is free for others.
  first.say(std::string(400'000, 'x') + ping(3));
  EXPECT_EQ(first.hear(4), u32(3));
  RawClient third(store, begun + std::string(400'000, 'x') + ping(4));
  EXPECT_EQ(third.hear(4), u32(4));
}

// A few hundred connections that sent nothing kept everybody else out for ten seconds at a time.
TEST(StoreServer, StrangersWhoSayNothingMakeWayForNewcomersAndMembersStay) {
  const RunningStore store(StoreLimits{.connections_max = 8});
  RawClient member(store);
  EXPECT_TRUE(member.has_heard_all());
  std::deque<RawClient> silent;
  for (const std::string_view said : {"", "", "G", "", "", "", ""}) {
    silent.emplace_back(store, said);
  }
  RawClient newcomer(store);
  EXPECT_TRUE(newcomer.has_heard_all());
  EXPECT_TRUE(silent.front().is_closed());
  EXPECT_TRUE(member.has_heard_all());
  // The oldest goes first: the youngest is still there, and may yet say who it is.
  silent.back().say(validate());
  EXPECT_TRUE(silent.back().has_heard_all());
}

TEST(StoreServer, MembersDoNotMakeWay) {
  const RunningStore store(StoreLimits{.connections_max = 2});
  RawClient first(store);
  EXPECT_TRUE(first.has_heard_all());
  RawClient second(store);
  EXPECT_TRUE(second.has_heard_all());
  EXPECT_TRUE(RawClient(store, "").is_closed());
  EXPECT_TRUE(first.has_heard_all());
  EXPECT_TRUE(second.has_heard_all());
}

TEST_F(StoreServerTest, WhoWaitsForWhatWillNotComeIsToldAndOthersAreLeftAlone) {
  RawClient waiting(store_);
  RawClient in_barrier(store_);
  RawClient other(store_);
  waiting.say(wait({"init"}));
  in_barrier.say(barrier("b", 3));
  ASSERT_TRUE(waiting.has_heard_all());
  ASSERT_TRUE(in_barrier.has_heard_all());
  store_.ask([](StoreServer& server) {
    server.close_waiting();
    return 0;
  });
  EXPECT_TRUE(waiting.is_closed());
  EXPECT_TRUE(in_barrier.is_closed());
  EXPECT_TRUE(other.has_heard_all());
}

TEST_F(StoreServerTest, AWaiterSeesTheEndWhenTheServerStops) {
  RawClient waiter(store_);
  waiter.say(wait({"never"}));
  ASSERT_TRUE(waiter.has_heard_all());
  store_.stop();
  served_ = false;
  EXPECT_TRUE(waiter.is_closed());
}

TEST(StoreServer, NamesAPortThatIsTaken) {
  const RunningStore store;
  asio::io_context context(1);
  StoreServerOptions options;
  options.endpoint = store.endpoint();
  const auto second = StoreServer::listen(context, options);
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().is(Errc::kIo));
  EXPECT_NE(second.error().detail.find(store.endpoint().to_string()), std::string::npos);
  EXPECT_NE(second.error().detail.find("choose another port"), std::string::npos);
}

TEST(StoreServer, RefusesAnAddressThatIsNotOurs) {
  asio::io_context context(1);
  StoreServerOptions options;
  options.endpoint = {.host = "192.0.2.1", .port = 0};
  const auto server = StoreServer::listen(context, options);
  ASSERT_FALSE(server);
  EXPECT_TRUE(server.error().is(Errc::kInvalidArgument));
}

TEST(StoreServer, AnEmptyHostTakesBothFamilies) {
  asio::io_context context(1);
  const auto server = StoreServer::listen(context, {}).value()->port();
  EXPECT_NE(server, 0);
}

}  // namespace
}  // namespace ddprun
