// Our client against our server; tests/rendezvous/store_torch_test.py runs it against torch's.

#include "rendezvous/store_client.hpp"

#include "tests/rendezvous/running_store.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;

TimePoint soon() {
  return Clock::now() + kPatience;
}

TEST(StoreClient, TellsWhetherAKeyExists) {
  const RunningStore store;
  auto client = StoreClient::connect(store.endpoint(), soon()).value();
  EXPECT_FALSE(*client.has("k", soon()));
  RawClient raw(store);
  raw.say(set("/k", "v"));
  EXPECT_EQ(raw.ask(get("/k"), 9), str("v"));
  EXPECT_TRUE(*client.has("k", soon()));
}

TEST(StoreClient, SaysSoWhenTheServerIsGone) {
  RunningStore store;
  auto client = StoreClient::connect(store.endpoint(), soon()).value();
  store.stop();
  EXPECT_TRUE(client.has("k", soon()).error().is(Errc::kPeerLost));
}

TEST(StoreClient, GivesUpAtItsDeadlineIfNobodyListens) {
  std::uint16_t port = 0;
  { port = RunningStore().endpoint().port; }
  const auto client =
      StoreClient::connect({.host = "127.0.0.1", .port = port}, Clock::now() + 30ms);
  ASSERT_FALSE(client);
  EXPECT_TRUE(client.error().is(Errc::kPeerLost));
}

}  // namespace
}  // namespace ddprun
