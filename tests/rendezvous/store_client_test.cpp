// Our client against our server; tests/integration/store_torch_test.py runs it against torch's.

#include "rendezvous/store_client.hpp"

#include "tests/rendezvous/running_store.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test
using namespace std::chrono_literals;

class StoreClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<StoreClient> join() {
    return StoreClient::connect(store_.endpoint(), {}, Clock::now() + kPatience).value();
  }
  static TimePoint soon() { return Clock::now() + kPatience; }

  RunningStore store_;
};

TEST_F(StoreClientTest, ReadsWhatItAndOthersWrote) {
  const auto client = join();
  ASSERT_TRUE(client->set("k", "v"));
  EXPECT_EQ(*client->get("k", soon()), "v");
  RawClient raw(store_);
  EXPECT_EQ(raw.ask(get("/k"), 9), str("v"));
}

TEST_F(StoreClientTest, SpeaksEveryOperation) {
  const auto client = join();
  const std::vector<std::string> both = {"a", "b"};
  EXPECT_EQ(*client->announce(), 1);
  ASSERT_TRUE(
      client->multi_set(std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", ""}}));
  ASSERT_TRUE(client->append("a", "2"));
  EXPECT_EQ(*client->multi_get(both, soon()), (std::vector<std::string>{"12", ""}));
  EXPECT_EQ(*client->add("n", -3), -3);
  EXPECT_EQ(*client->compare_set("c", "", "x"), "x");
  EXPECT_EQ(*client->compare_set("c", "y", "z"), "x");
  EXPECT_TRUE(*client->check(both));
  EXPECT_EQ(*client->num_keys(), 5);
  EXPECT_EQ(client->list_keys()->size(), 4U);
  EXPECT_TRUE(*client->delete_key("a"));
  EXPECT_FALSE(*client->check(both));
  ASSERT_TRUE(client->queue_push("q", "item"));
  EXPECT_EQ(*client->queue_len("q"), 1);
  EXPECT_EQ(**client->queue_pop("q"), "item");
  EXPECT_EQ(*client->queue_pop("q"), std::nullopt);
  EXPECT_TRUE(client->barrier("done", 1, soon()));
}

TEST_F(StoreClientTest, AWaitThatTimesOutLeavesItUsable) {
  const auto client = join();
  const std::vector<std::string> never = {"never"};
  const auto waited = client->wait(never, Clock::now());
  ASSERT_FALSE(waited);
  EXPECT_TRUE(waited.error().is(Errc::kTimedOut));
  EXPECT_NE(waited.error().detail.find("never"), std::string::npos);
  EXPECT_EQ(*client->add("n", 1), 1);
}

TEST_F(StoreClientTest, SaysSoWhenTheServerIsGone) {
  const auto client = join();
  store_.stop();
  EXPECT_TRUE(client->get("k", soon()).error().is(Errc::kPeerLost));
}

TEST_F(StoreClientTest, AsksAnOldServerNothingItDoesNotKnow) {
  const auto client =
      StoreClient::connect(store_.endpoint(), {.dialect = StoreDialect::kTorch22}, soon()).value();
  EXPECT_TRUE(client->list_keys().error().is(Errc::kInvalidArgument));
  EXPECT_TRUE(client->queue_pop("q").error().is(Errc::kInvalidArgument));
  EXPECT_EQ(*client->num_keys(), 0);
}

TEST(StoreClient, GivesUpAtItsDeadlineWhereNobodyListens) {
  std::uint16_t port = 0;
  { port = RunningStore().endpoint().port; }
  const auto client =
      StoreClient::connect({.host = "127.0.0.1", .port = port}, {}, Clock::now() + 30ms);
  ASSERT_FALSE(client);
  EXPECT_TRUE(client.error().is(Errc::kPeerLost));
}

}  // namespace
}  // namespace ddprun
