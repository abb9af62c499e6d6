#include "rendezvous/core/store_parser.hpp"

#include "tests/rendezvous/golden_frames.hpp"
#include "tests/rendezvous/store_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the verbs of this test

/// Feeds `bytes` after a VALIDATE; the error that ends it.
Error refused(std::string_view bytes, const StoreLimits& limits = {}) {
  StoreWorld world(limits);
  world.say(1, bytes);
  EXPECT_TRUE(world.closed(1));
  return world.why(1);
}

bool accepted(std::string_view bytes, const StoreLimits& limits = {}) {
  StoreWorld world(limits);
  world.say(1, bytes);
  return !world.closed(1);
}

TEST(StoreParser, AnswersTheGoldenFramesOneByOne) {
  StoreWorld world;
  for (const auto& frame : kGoldenFrames) {
    world.feed(1, hex(frame.request));
    EXPECT_EQ(world.hear(1), hex(frame.reply)) << frame.name;
  }
  EXPECT_FALSE(world.closed(1));
}

TEST(StoreParser, AnswersTheGoldenFramesByteByByte) {
  StoreWorld world;
  for (const auto& frame : kGoldenFrames) {
    for (const char byte : hex(frame.request)) {
      world.feed(1, std::string_view(&byte, 1));
    }
    EXPECT_EQ(world.hear(1), hex(frame.reply)) << frame.name;
  }
}

TEST(StoreParser, AnswersTheGoldenFramesInOnePiece) {
  StoreWorld world;
  std::string requests;
  std::string replies;
  for (const auto& frame : kGoldenFrames) {
    requests += hex(frame.request);
    replies += hex(frame.reply);
  }
  world.feed(1, requests);
  EXPECT_EQ(world.hear(1), replies);
}

TEST(StoreParser, KeepsNothingOfARequestThatWasCarriedOut) {
  const std::string value(100'000, 'v');
  const Pairs pairs(1'000, {std::string(1'000, 'k'), value.substr(0, 300)});
  const StoreLimits limits;
  StoreParser parser(limits);
  for (const std::string& bytes : {validate(), multi_set(pairs), compare_set("k", value, value)}) {
    std::string_view input = bytes;
    ASSERT_TRUE(parser.read(input).value());
    parser.carried_out();
  }
  EXPECT_EQ(parser.request().keys.bytes(), 0U);
  EXPECT_TRUE(parser.request().values.empty());
  EXPECT_EQ(parser.request().value.size() + parser.request().expected.size(), 0U);
}

TEST(StoreParser, RefusesEverythingBeforeValidate) {
  for (const int code : {0x01, 0x03, 0x07, 0x16, 0xFF}) {
    StoreWorld world;
    world.feed(1, op(code) + str("init/") + i64(1));
    EXPECT_TRUE(world.closed(1)) << code;
    EXPECT_EQ(world.store().keys(), 0U) << code;
  }
}

TEST(StoreParser, RefusesAWrongMagicAndNamesASwappedOne) {
  StoreWorld world;
  world.feed(1, hex("00 00000000"));
  world.feed(2, hex("00 3C85F7CE"));
  EXPECT_TRUE(world.closed(1));
  EXPECT_NE(world.why(2).detail.find("byte-swapped"), std::string::npos);
}

TEST(StoreParser, RefusesASecondValidateAndUnknownOpcodes) {
  EXPECT_TRUE(refused(validate()).is(Errc::kProtocol));
  for (int code = 0x13; code <= 0xFF; ++code) {
    EXPECT_TRUE(refused(op(code)).is(Errc::kProtocol)) << code;
  }
}

TEST(StoreParser, ClosesWhenALengthIsReadNotAfterTheBody) {
  for (const std::int64_t length : {std::int64_t{8'193}, INT64_MIN, std::int64_t{-1}}) {
    EXPECT_TRUE(refused(op(3) + i64(length)).is(Errc::kLimit)) << length;
  }
  EXPECT_TRUE(refused(op(1) + str("k") + i64(8'388'609)).is(Errc::kLimit));
  EXPECT_TRUE(refused(op(6) + i64(131'073)).is(Errc::kLimit));
  EXPECT_TRUE(refused(op(11) + i64(std::int64_t{1} << 62)).is(Errc::kLimit));
  EXPECT_TRUE(refused(op(11) + i64(-1)).is(Errc::kLimit));
}

TEST(StoreParser, AcceptsEveryLimitItself) {
  EXPECT_TRUE(accepted(set(std::string(8'192, 'k'), std::string(8'388'608, 'v'))));
  EXPECT_TRUE(accepted(wait(std::vector<std::string>(131'072, "k"))));
}

TEST(StoreParser, ReadsAListTheSameWhereverItIsCut) {
  const std::vector<std::string> names = {"", "abc", "12345678", "absent", std::string(60, 'k')};
  const std::string request = multi_get(names);
  const std::string reply = str("e") + str("3") + str("8") + str("") + str("60");
  for (std::size_t cut = 0; cut <= request.size(); ++cut) {
    StoreWorld world;
    world.say(1, multi_set({{names[0], "e"}, {names[1], "3"}, {names[2], "8"}, {names[4], "60"}}));
    world.feed(1, request.substr(0, cut));
    world.feed(1, request.substr(cut) + request);
    EXPECT_EQ(world.hear(1), reply + reply) << cut;
  }
}

TEST(StoreParser, LimitsEveryKeyOfAListAndTheListAsAWhole) {
  const StoreLimits short_keys{.key_bytes_max = 4};
  EXPECT_TRUE(accepted(wait({"abcd", "abcd"}), short_keys));
  EXPECT_TRUE(refused(wait({"abcd", "abcde", "a"}), short_keys).is(Errc::kLimit));
  const StoreLimits short_requests{.request_bytes_max = 36};
  EXPECT_TRUE(accepted(wait({"abcd", "abcd", "abcd"}), short_requests));
  EXPECT_TRUE(refused(wait({"abcd", "abcd", "abcde"}), short_requests).is(Errc::kLimit));
}

TEST(StoreParser, LimitsTheWholeRequest) {
  const StoreLimits limits{.request_bytes_max = 100};
  EXPECT_TRUE(accepted(set("k", std::string(83, 'v')), limits));
  EXPECT_TRUE(refused(set("k", std::string(84, 'v')), limits).is(Errc::kLimit));
}

TEST(StoreParser, OffersMemoryForALargeValueOnlyAsItArrives) {
  const StoreLimits limits;
  StoreParser parser(limits);
  const std::string opening = validate() + op(1) + str("k") + i64(8'388'608);
  std::string_view input = opening;
  ASSERT_TRUE(*parser.read(input));
  ASSERT_FALSE(*parser.read(input));
  EXPECT_EQ(parser.value_space().size(), ValueBuilder::kFirstBytes);
}

TEST(StoreParser, TakesAValueThatWasReceivedInPlace) {
  const StoreLimits limits;
  StoreParser parser(limits);
  const std::string value(300'000, 'x');
  const std::string opening = validate() + op(1) + str("k") + i64(300'000);
  std::string_view input = opening;
  ASSERT_TRUE(*parser.read(input));
  ASSERT_FALSE(*parser.read(input));
  std::size_t received = 0;
  for (auto space = parser.value_space(); !space.empty(); space = parser.value_space()) {
    std::ranges::fill(space, 'x');
    parser.value_filled(space.size());
    received += space.size();
  }
  const std::string rest(value.size() - received, 'x');
  input = rest;
  ASSERT_TRUE(*parser.read(input));
  EXPECT_EQ(parser.request().value.view(), value);
}

}  // namespace
}  // namespace ddprun
