#include "rendezvous/core/store.hpp"

#include "tests/rendezvous/store_world.hpp"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test

// Values.

TEST(Store, AnAbsentKeyReadsAsAnEmptyValue) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, get("a")), str(""));
  EXPECT_EQ(world.ask(1, set("b", "2") + multi_get({"a", "b"})), str("") + str("2"));
}

TEST(Store, ManyValuesComeInTheirOrderWhateverTheirSizes) {
  StoreWorld world;
  const std::string large(10'000, 'l');
  const std::string larger(100'000, 'L');
  world.say(1, set("s", "small") + set("l", large) + set("L", larger));
  EXPECT_EQ(
      world.ask(1, multi_get({"s", "l", "s", "absent", "L", "L", "s"})),
      str("small") + str(large) + str("small") + str("") + str(larger) + str(larger) +
          str("small"));
  // As many as are looked up at once, plus one.
  const std::vector<std::string> many(KeyTable::kAtOnceMax + 1, "s");
  std::string expected;
  for (std::size_t i = 0; i < many.size(); ++i) {
    expected += str("small");
  }
  EXPECT_EQ(world.ask(1, multi_get(many)), expected);
}

TEST(Store, TheLastOfADuplicateInOneMultiSetWins) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, multi_set({{"a", "1"}, {"a", "2"}}) + get("a")), str("2"));
}

TEST(Store, AddReadsCountersAsStollDoes) {
  const std::vector<std::pair<std::string, std::int64_t>> table = {
      {"+5", 6}, {"-0", 1}, {" 12ab", 13}, {"0x10", 1}, {"1e3", 2}, {"\t\n\v\f\r-3", -2}};
  for (const auto& [stored, sum] : table) {
    StoreWorld world;
    EXPECT_EQ(world.ask(1, set("n", stored) + add("n", 1)), i64(sum)) << stored;
    EXPECT_EQ(world.ask(1, get("n")), str(std::to_string(sum))) << stored;
  }
}

TEST(Store, AddToNoNumberOrPastTheEndClosesAndChangesNothing) {
  for (const std::string stored :
       {"", "x", "- 3", "+-3", "9223372036854775808", "9223372036854775807"}) {
    StoreWorld world;
    EXPECT_EQ(world.ask(1, set("n", stored) + add("n", 1)), "") << stored;
    EXPECT_TRUE(world.closed(1)) << stored;
    EXPECT_EQ(world.ask(2, get("n")), str(stored)) << stored;
  }
}

TEST(Store, AddOfNothingCreatesZero) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, add("n", 0) + get("n")), i64(0) + str("0"));
}

TEST(Store, CompareSetFollowsItsTable) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, compare_set("a", "x", "y")), str("x"));  // absent, and expected not empty
  EXPECT_EQ(world.ask(1, num_keys()), i64(0));
  EXPECT_EQ(world.ask(1, compare_set("a", "", "1")), str("1"));
  EXPECT_EQ(world.ask(1, compare_set("a", "2", "3")), str("1"));
  EXPECT_EQ(world.ask(1, compare_set("a", "1", "")), str(""));
  EXPECT_EQ(world.ask(1, compare_set("a", "", "4")), str("4"));
}

TEST(Store, AppendCreatesExtendsAndHasALimit) {
  StoreWorld world({.grown_value_bytes_max = 4});
  EXPECT_EQ(world.ask(1, append("a", "12") + append("a", "34") + get("a")), str("1234"));
  world.say(1, append("a", "5"));
  EXPECT_TRUE(world.why(1).is(Errc::kLimit));
  EXPECT_EQ(world.ask(2, get("a")), str("1234"));
}

TEST(Store, AppendLeavesRepliesAlreadyGivenAsTheyWere) {
  StoreWorld world;
  const std::string large(10'000, 'a');
  world.say(1, set("k", large) + get("k") + append("k", "b") + get("k"));
  EXPECT_EQ(world.hear(1), str(large) + str(large + "b"));
}

TEST(Store, KeysHoldAnyBytesAndAreListedUnchanged) {
  StoreWorld world;
  const std::string odd = std::string("\0\xFF", 2);
  EXPECT_EQ(world.ask(1, set(odd, "v") + list_keys()), i64(1) + str(odd));
  EXPECT_EQ(world.ask(1, set("", "w") + get("")), str("w"));
}

TEST(Store, CountsStoredKeysOnly) {
  StoreWorld world;
  world.say(1, set("a", "1") + add("init/", 1) + push("q", "x") + barrier("b", 1));
  world.hear(1);
  EXPECT_EQ(world.ask(1, num_keys()), i64(3));
  EXPECT_EQ(
      world.ask(1, delete_key("a") + delete_key("a") + delete_key("q")), i64(1) + i64(0) + i64(0));
  EXPECT_EQ(world.ask(1, num_keys()), i64(2));
}

// Waiting.

TEST(Store, AWaitForWhatIsThereIsAnsweredAtOnce) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, wait({})), kStop);
  EXPECT_EQ(world.ask(1, set("a", "") + wait({"a", "a"})), kStop);
}

TEST(Store, AWaitEndsOnceWhenItsLastNameCame) {
  StoreWorld world;
  world.say(1, wait({"a", "b", "a"}));
  world.say(2, set("a", "1"));
  EXPECT_EQ(world.hear(1), "");
  world.say(2, set("b", "1") + set("b", "2"));
  EXPECT_EQ(world.hear(1), kStop);
  EXPECT_EQ(world.store().registrations(), 0U);
}

TEST(Store, EveryWriteThatLeavesAKeyWakes) {
  for (const std::string& write :
       {set("k", "v"),
        add("k", 1),
        append("k", "v"),
        multi_set({{"j", ""}, {"k", ""}}),
        compare_set("k", "", "v")}) {
    StoreWorld world;
    world.say(1, wait({"k"}));
    world.say(2, write);
    EXPECT_EQ(world.hear(1), kStop);
  }
}

TEST(Store, ACompareSetThatStoresNothingWakesNobody) {
  StoreWorld world;
  world.say(1, wait({"k"}));
  world.say(2, compare_set("k", "x", "y"));
  EXPECT_EQ(world.hear(1), "");
}

TEST(Store, AKeyThatCameAndWentStillCounts) {
  StoreWorld world;
  world.say(1, wait({"a", "b"}));
  world.say(2, set("a", "1") + delete_key("a") + set("b", "1"));
  EXPECT_EQ(world.hear(1), kStop);
}

TEST(Store, CancelIsAlwaysAnsweredAndEndsTheWait) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, cancel_wait()), kCanceled);
  EXPECT_EQ(world.ask(1, wait({"a"}) + cancel_wait()), kCanceled);
  world.say(2, set("a", "1"));
  EXPECT_EQ(world.hear(1), "");
}

TEST(Store, ASecondWaitReplacesTheFirst) {
  StoreWorld world;
  world.say(1, wait({"old"}) + wait({"new"}));
  world.say(2, set("old", "1"));
  EXPECT_EQ(world.hear(1), "");
  world.say(2, set("new", "1"));
  EXPECT_EQ(world.hear(1), kStop);
}

TEST(Store, OtherRequestsAreServedWhileALinkWaits) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, wait({"a"}) + ping(7)), u32(7));
  EXPECT_EQ(world.ask(1, set("a", "1")), kStop);  // it may wake itself
}

TEST(Store, ALinkThatLeftIsForgotten) {
  StoreWorld world;
  world.say(1, wait({"a"}));
  world.say(2, wait({"a"}));
  world.leave(1);
  EXPECT_EQ(world.store().registrations(), 1U);
  world.say(3, set("a", "1"));
  EXPECT_EQ(world.hear(2), kStop);
}

TEST(Store, TenThousandWaitersOnOneKeyAreAllReleased) {
  StoreWorld world;
  for (int who = 1; who <= 10'000; ++who) {
    world.say(who, wait({"a", "b"}));
  }
  world.say(0, set("a", "") + set("b", ""));
  for (int who = 1; who <= 10'000; ++who) {
    ASSERT_EQ(world.hear(who), kStop);
  }
}

TEST(Store, AWaitForTheLongestListEndsInLinearTime) {
  StoreWorld world;
  std::vector<std::string> names;
  names.reserve(131'072);
  for (int i = 0; i < 131'072; ++i) {
    names.push_back(std::to_string(i));
  }
  world.say(1, wait(names));
  for (const auto& name : names) {
    EXPECT_EQ(world.hear(1), "");
    world.say(2, set(name, ""));
  }
  EXPECT_EQ(world.hear(1), kStop);
}

// Queues.

TEST(Store, QueuesAreFirstInFirstOut) {
  StoreWorld world;
  world.say(1, push("q", "1") + push("q", "2"));
  EXPECT_EQ(world.ask(1, queue_len("q") + check({"q"})), i64(2) + kReadyReply);
  EXPECT_EQ(world.ask(1, pop("q")), i64(2) + str("1"));
  EXPECT_EQ(world.ask(1, pop("q")), i64(1) + str("2"));
  EXPECT_EQ(world.ask(1, pop("q") + check({"q"})), i64(0) + kNotReadyReply);
}

TEST(Store, AKeyAndAQueueOfOneNameAreTwoThings) {
  StoreWorld world;
  world.say(1, push("x", "item") + set("x", "value"));
  EXPECT_EQ(world.ask(1, get("x") + queue_len("x")), str("value") + i64(1));
  EXPECT_EQ(world.ask(1, delete_key("x") + pop("x")), i64(1) + i64(1) + str("item"));
}

TEST(Store, APushWakesOneInOrderOfRegistration) {
  StoreWorld world;
  world.say(1, wait({"q"}));
  world.say(2, wait({"q"}));
  world.say(3, push("q", "a"));
  EXPECT_EQ(world.hear(1), kStop);
  EXPECT_EQ(world.hear(2), "");
  world.say(3, push("q", "b"));
  EXPECT_EQ(world.hear(2), kStop);
}

TEST(Store, APushPassesOverAWaiterThatLacksMore) {
  StoreWorld world;
  world.say(1, wait({"q", "missing"}));
  world.say(2, wait({"q"}));
  world.say(3, push("q", "a"));
  EXPECT_EQ(world.hear(1), "");
  EXPECT_EQ(world.hear(2), kStop);
}

TEST(Store, AWaitForAFilledQueueAndAKeyEndsWhenTheKeyComes) {
  StoreWorld world;
  world.say(1, push("q", "a"));
  world.say(2, wait({"q", "k"}));
  world.say(3, wait({"k", "p"}));
  world.say(1, push("p", "a") + set("k", "1"));
  EXPECT_EQ(world.hear(2), kStop);
  EXPECT_EQ(world.hear(3), kStop);
}

TEST(Store, ALinkReleasedByAPushIsNotReleasedFromItsNextWait) {
  StoreWorld world;
  world.say(1, wait({"q"}));
  world.say(2, push("q", "a"));
  EXPECT_EQ(world.hear(1), kStop);
  world.say(1, wait({"other"}));
  world.say(2, push("q", "b"));
  EXPECT_EQ(world.hear(1), "");
}

// Barriers.

TEST(Store, ABarrierOfOneOrFewerIsOverAtOnce) {
  StoreWorld world;
  EXPECT_EQ(
      world.ask(1, barrier("b", 1) + barrier("b", 0) + barrier("b", -1)), kStop + kStop + kStop);
  EXPECT_EQ(world.ask(1, get("b")), str("3"));
}

TEST(Store, ABarrierReleasesAllWhenTheLastArrives) {
  StoreWorld world;
  for (int who = 1; who < 64; ++who) {
    world.say(who, barrier("b", 64));
  }
  EXPECT_EQ(world.hear(1), "");
  world.say(64, barrier("b", 64));
  for (int who = 1; who <= 64; ++who) {
    EXPECT_EQ(world.hear(who), kStop) << who;
  }
  EXPECT_EQ(world.ask(1, barrier("b", 64)), kStop);  // no terms: it stays open
}

TEST(Store, WhoLeavesABarrierStaysCounted) {
  StoreWorld world;
  EXPECT_EQ(world.ask(1, barrier("b", 3) + cancel_wait()), kCanceled);
  world.say(2, barrier("b", 3));
  world.leave(2);
  EXPECT_EQ(world.ask(3, barrier("b", 3)), kStop);
  EXPECT_EQ(world.hear(1), "");
}

TEST(Store, EachIsReleasedByItsOwnWorldSizeAndByAnyWriter) {
  StoreWorld world;
  world.say(1, barrier("b", 5));
  world.say(2, barrier("b", 3));
  world.say(3, set("b", "x"));
  EXPECT_EQ(world.hear(2), "");
  world.say(3, set("b", "3"));
  EXPECT_EQ(world.hear(2), kStop);
  EXPECT_EQ(world.hear(1), "");
  EXPECT_EQ(world.ask(3, add("b", 2)), i64(5));
  EXPECT_EQ(world.hear(1), kStop);
}

TEST(Store, ABarrierOnNoNumberCloses) {
  StoreWorld world;
  world.say(1, set("b", "x") + barrier("b", 2));
  EXPECT_TRUE(world.closed(1));
}

// Budgets.

TEST(Store, TheWriterThatExceedsABudgetIsClosedAndReadersContinue) {
  StoreWorld world({.stored_bytes_max = 1'000, .keys_max = 2, .queue_items_max = 1});
  world.say(1, set("a", "1") + set("b", "2") + set("c", "3"));
  EXPECT_TRUE(world.why(1).is(Errc::kLimit));
  world.say(2, push("q", "1") + push("q", "2"));
  EXPECT_TRUE(world.closed(2));
  world.say(3, append("a", std::string(900, 'x')));
  EXPECT_TRUE(world.closed(3));
  EXPECT_EQ(world.ask(4, get("a") + num_keys()), str("1") + i64(2));
}

TEST(Store, AListOfKeysThatIsTooLongIsNotBuilt) {
  StoreWorld world({.reply_bytes_max = 20});
  EXPECT_EQ(world.ask(1, set("k1", "") + list_keys()), i64(1) + str("k1"));
  world.say(1, set("k2", "") + set("k3", "") + list_keys());
  EXPECT_TRUE(world.why(1).is(Errc::kLimit));
}

TEST(Store, AMultiSetThatDoesNotFitStoresNothing) {
  StoreWorld world({.keys_max = 2});
  world.say(1, multi_set({{"a", ""}, {"b", ""}, {"c", ""}}));
  EXPECT_TRUE(world.closed(1));
  EXPECT_EQ(world.store().keys(), 0U);
}

TEST(Store, CountsBytesBackToNothing) {
  StoreWorld world;
  world.say(1, set("a", "1") + set("a", "22") + append("a", "3") + push("q", "4") + add("n", 9));
  world.say(1, delete_key("a") + delete_key("n") + pop("q"));
  EXPECT_EQ(world.store().stored_bytes(), 0U);
  EXPECT_EQ(world.store().queue_items(), 0U);
}

TEST(Store, LimitsHowMuchIsWaitedFor) {
  StoreWorld world({.registrations_max = 2});
  world.say(1, wait({"a", "b"}));
  world.say(2, wait({"c"}));
  EXPECT_FALSE(world.closed(1));
  EXPECT_TRUE(world.why(2).is(Errc::kLimit));
}

// Names of 8 KiB were counted as any other: two hundred clients could wait for terabytes of them.
TEST(Store, LimitsTheBytesOfWhatIsWaitedFor) {
  StoreWorld world({.waited_bytes_max = 20'000});
  const std::string first(8'000, 'a');
  const std::string second(8'000, 'b');
  world.say(1, wait({first, second}));
  world.say(2, wait({std::string(8'000, 'c')}));
  world.say(3, barrier(std::string(8'000, 'c'), 2));
  EXPECT_FALSE(world.closed(1));
  EXPECT_TRUE(world.why(2).is(Errc::kLimit));
  EXPECT_TRUE(world.why(3).is(Errc::kLimit));
  // Whatever ends a wait gives its bytes back.
  world.say(4, set(first, "1") + wait({second}));
  world.say(5, barrier("n", 2) + ping(1));
  EXPECT_FALSE(world.closed(4));
  world.say(6, set(second, "1") + barrier("n", 2));
  world.say(7, wait({"never"}));
  world.leave(5);
  world.leave(6);
  world.leave(7);
  EXPECT_EQ(world.store().bytes(), world.store().stored_bytes());
}

// A reader that took nothing, and a writer that deleted what it read, held any amount of memory.
TEST(Store, AValueThatWasDeletedCountsUntilItsReadersHaveTakenIt) {
  const StoreLimits limits{.stored_bytes_max = 200'000};
  Store store(limits);
  std::vector<Link> released;
  StoreReplies unread;
  StoreReplies other;
  const std::string large(30'000, 'x');
  const std::string larger(100'000, 'x');
  const auto ask = [&](StoreOp op, std::string_view key, std::string_view value, StoreReplies& to) {
    StoreRequest request;
    request.op = op;
    request.key = key;
    request.value = Value(value);
    return store.apply(Link{1}, request, to, released).has_value();
  };
  for (const std::string key : {"deleted", "replaced", "appended"}) {
    ASSERT_TRUE(ask(StoreOp::kSet, key, large, other));
    ASSERT_TRUE(ask(StoreOp::kGet, key, "", unread));
  }
  ASSERT_TRUE(ask(StoreOp::kDeleteKey, "deleted", "", other));
  ASSERT_TRUE(ask(StoreOp::kSet, "replaced", "", other));
  ASSERT_TRUE(ask(StoreOp::kAppend, "appended", "y", other));
  EXPECT_EQ(store.untaken_bytes(), 3 * large.size());
  store.free_taken();
  EXPECT_FALSE(ask(StoreOp::kSet, "more", larger, other));
  unread.consume(unread.unsent());
  store.free_taken();
  EXPECT_EQ(store.untaken_bytes(), 0U);
  EXPECT_TRUE(ask(StoreOp::kSet, "more", larger, other));
}

}  // namespace
}  // namespace ddprun
