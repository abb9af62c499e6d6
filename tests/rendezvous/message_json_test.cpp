#include "rendezvous/core/message_json.hpp"

#include "rendezvous/core/frame.hpp"
#include "tests/rendezvous/sample_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the samples
using ::testing::HasSubstr;

/// The error for `text`; "" if it is accepted.
std::string refusal(std::string_view text) {
  const auto decoded = decode(text);
  if (decoded) return "";
  EXPECT_TRUE(decoded.error().is(Errc::kProtocol));
  return decoded.error().detail;
}

/// `message`, as JSON with the fields after the type in another order and with blanks.
std::string rewritten(const Message& message) {
  auto fields = nlohmann::json::parse(encode(message));
  const std::string text = "{ \"type\" : " + fields["type"].dump();
  fields.erase("type");
  const std::string others = fields.dump(1);
  return text + (fields.empty() ? "" : ",") + others.substr(1);
}

TEST(MessageJson, ThereIsASampleOfEachMessage) {
  const auto samples = sample_messages();
  ASSERT_EQ(samples.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].index(), i);
  }
}

TEST(MessageJson, EachMessageComesBackAsItWent) {
  for (const Message& message : sample_messages()) {
    const auto decoded = decode(encode(message));
    ASSERT_TRUE(decoded) << encode(message) << decoded.error().detail;
    EXPECT_EQ(*decoded, message) << encode(message);
  }
}

TEST(MessageJson, TheOrderOfFieldsAndBlanksMeanNothing) {
  for (const Message& message : sample_messages()) {
    const auto decoded = decode(rewritten(message));
    ASSERT_TRUE(decoded) << rewritten(message) << decoded.error().detail;
    EXPECT_EQ(*decoded, message);
  }
}

TEST(MessageJson, OptionalFieldsMayBeMissing) {
  Hello hello;
  hello.job = "j";
  for (const Message& message :
       {Message(hello),
        Message(Heartbeat()),
        Message(WorkerNews()),
        Message(OfferRound()),
        Message(StopRound()),
        Message(Refuse())}) {
    EXPECT_EQ(decode(encode(message)).value(), message) << encode(message);
    EXPECT_EQ(decode(rewritten(message)).value(), message);
  }
}

TEST(MessageJson, AnyOtherFieldMustBeThere) {
  for (const Message& message : sample_messages()) {
    const auto whole = nlohmann::ordered_json::parse(encode(message));
    for (const auto& [name, value] : whole.items()) {
      auto without = whole;
      without.erase(name);
      const bool optional = name == "failure" || name == "place" || name == "culprit" ||
                            name == "steps" ||
                            (name == "instance" && std::holds_alternative<Refuse>(message));
      EXPECT_EQ(refusal(without.dump()).empty(), optional) << without.dump();
    }
  }
}

TEST(MessageJson, LooksOnTheWireAsTheDocumentSays) {
  EXPECT_EQ(
      encode(Heartbeat{.number = 17, .heard = 16}),
      R"({"type":"heartbeat","number":17,"heard":16})");
  EXPECT_EQ(
      encode(Heartbeat{
          .number = 18,
          .heard = 17,
          .steps =
              {{{.local_rank = 1,
                 .step = 1'200,
                 .step_time = std::chrono::milliseconds(80),
                 .age = std::chrono::milliseconds(30),
                 .busy_with = "saving"}}}}),
      R"({"type":"heartbeat","number":18,"heard":17,"steps":[{"local_rank":1,"step":1200,)"
      R"("step_time_ns":80000000,"age_ns":30000000,"busy_with":"saving"}]})");
  EXPECT_EQ(encode(Confirm{.heard = 17}), R"({"type":"confirm","heard":17})");
  EXPECT_EQ(
      encode(HeartbeatReply{
          .number = 17,
          .grant = std::chrono::seconds(3),
          .round = {.term = 4, .number = 10},
          .voter_count = 5,
          .next = std::chrono::milliseconds(600)}),
      R"({"type":"heartbeat_reply","number":17,"grant_ns":3000000000,)"
      R"("round":{"term":4,"number":10},"voter_count":5,"next_ns":600000000})");
  EXPECT_EQ(encode(VerdictHeard{}), R"({"type":"verdict_heard"})");
  EXPECT_EQ(
      encode(LifelineHello{
          .job = "j",
          .node = Incarnation{0xA1},
          .leadership = {.term = 4, .leader = Incarnation{0xB2}},
          .proof = "f0"}),
      R"({"job":"j","incarnation":"00000000000000a1",)"
      R"("leadership":{"term":4,"leader":"00000000000000b2"},"proof":"f0"})");
}

TEST(MessageJson, RefusesByTheNameOfTheField) {
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":-1})"),
      "message: vote_request.term is -1; expected 0 to 1000000000000000");
  EXPECT_EQ(refusal(R"({"type":"vote_request"})"), "message: vote_request.term is missing");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":"1"})"),
      "message: vote_request.term is not an integer");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":1.0})"),
      "message: vote_request.term is not an integer");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":18446744073709551615})"),
      "message: vote_request.term is 18446744073709551615; expected 0 to 1000000000000000");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":1,"colour":2})"),
      "message: vote_request has an unknown field \"colour\"");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":1,"term":2})"),
      "message: vote_request.term appears twice");
  EXPECT_EQ(
      refusal(R"({"type":"leaving","signal":15,"whole_job":1})"),
      "message: leaving.whole_job is not true or false");
  EXPECT_EQ(
      refusal(R"({"type":"start_round","round":{"term":1}})"),
      "message: start_round.round.number is missing");
  EXPECT_EQ(
      refusal(R"({"type":"start_round","round":7})"),
      "message: start_round.round is not an object");
  EXPECT_EQ(
      refusal(R"({"type":"workers","round":{"term":1,"number":1},"state":"asleep","pids":[]})"),
      "message: workers.state is \"asleep\"; expected one of stopped, running, failed, succeeded");
  EXPECT_EQ(
      refusal(R"({"type":"workers","round":{"term":1,"number":1},"state":"failed","pids":[1,-2]})"),
      "message: workers.pids[1] is -2; expected 0 to 4194304");
  EXPECT_EQ(
      refusal(
          R"({"type":"redirect","job":"j","program":"a","role":"b",)"
          R"("instance":{"bootstrap_leader":"0000000000000001","bootstrapped_ms":1},"has_begun":true,)"
          R"("leadership":{"term":1,"leader":"0000000000000001"},)"
          R"("leader":{"host":"a b","port":1}})"),
      "message: redirect.leader is invalid: host is not a name or an address");
}

TEST(MessageJson, RefusesWhatIsNoMessage) {
  EXPECT_EQ(refusal(""), "message: it is not valid JSON");
  EXPECT_EQ(refusal("\xFF\xFE"), "message: it is not valid JSON");
  EXPECT_EQ(
      refusal(R"({"type":"vote_request","term":1} )"
              "x"),
      "message: it is not valid JSON");
  EXPECT_EQ(refusal(R"({"type":"vote_request","term":1)"), "message: it is not valid JSON");
  EXPECT_EQ(refusal("[]"), "message: it is not an object");
  EXPECT_EQ(refusal("{}"), "message: type is missing");
  EXPECT_THAT(refusal(R"({"type":7})"), HasSubstr("message: type is not text"));
  EXPECT_THAT(
      refusal(R"({"type":"dance"})"),
      HasSubstr("message: type is \"dance\"; expected one of hello, heartbeat, "));
  EXPECT_EQ(
      refusal(R"({"term":1,"type":"vote_request"})"),
      "message: it has no type before other fields");
  EXPECT_EQ(
      refusal(std::string(10'000, '[') + std::string(10'000, ']')), "message: it is not an object");
  EXPECT_THAT(
      refusal(R"({"type":)" + std::string(10'000, '[') + std::string(10'000, ']') + "}"),
      HasSubstr("message: type is not text; expected one of "));
}

TEST(MessageJson, RefusesWhatIsTooLongOrUnprintable) {
  const auto refuse_with = [](std::string_view why) {
    return R"({"type":"refuse","job":"j","exit_status":2,"is_stranger":false,"why":")" +
           std::string(why) + "\"}";
  };
  EXPECT_EQ(refusal(refuse_with(std::string(4'096, 'x'))), "");
  EXPECT_EQ(
      refusal(refuse_with(std::string(4'097, 'x'))),
      "message: refuse.why has 4097 bytes; at most 4096");
  EXPECT_EQ(refusal(refuse_with(R"(a\nb)")), "message: refuse.why has control characters");
  std::string pids;
  for (int i = 0; i < 4'097; ++i) {
    pids += i == 0 ? "1" : ",1";
  }
  EXPECT_EQ(
      refusal(
          R"({"type":"workers","round":{"term":1,"number":1},"state":"running","pids":[)" + pids +
          "]}"),
      "message: workers.pids has more than 4096 items");
}

TEST(MessageJson, RefusesValuesThatContradictEachOther) {
  Hello hello;
  hello.nodes_min = 3;
  hello.nodes_max = 2;
  EXPECT_THAT(refusal(encode(hello)), HasSubstr("nodes_min exceeds nodes_max"));
  OfferRound offer;
  offer.place = Place{.group_rank = 2, .group_size = 2, .first_rank = 0, .world_size = 1};
  EXPECT_THAT(refusal(encode(offer)), HasSubstr("offer_round.place"));
}

TEST(MessageJson, WhateverATextHoldsItCanBeSent) {
  for (const std::string& why :
       {std::string("two\nlines\tand\0more", 18),
        std::string("\xFF is no UTF-8"),
        std::string(10'000, '\xFF'),
        std::string(4'095, 'x') + "\xC3\xA9",
        std::string(10'000, '"')}) {
    const auto decoded = decode(encode(Refuse{.job = {}, .exit_status = 2, .why = why}));
    ASSERT_TRUE(decoded) << decoded.error().detail;
    EXPECT_LE(std::get<Refuse>(*decoded).why.size(), 4'096U);
  }
  const auto lines = decode(encode(Refuse{.job = {}, .exit_status = 2, .why = "two\nlines"}));
  EXPECT_EQ(std::get<Refuse>(*lines).why, "two lines");
}

TEST(MessageJson, TheLargestMessageFitsInAFrame) {
  OfferRound offer;
  offer.hosts = std::string(100'000, 'n');
  offer.progress.reason = std::string(100'000, '"');
  offer.successors.assign(
      16, {.node = Incarnation{1}, .at = {.host = std::string(300, 'h'), .port = 65'535}});
  std::string frame;
  EXPECT_TRUE(append_frame(frame, encode(offer)));
  WorkerNews news;
  news.pids.assign(4'096, 4'194'304);
  news.failure = sample_failure();
  news.failure->how = std::string(100'000, '"');
  EXPECT_TRUE(append_frame(frame, encode(news)));
}

TEST(MessageJson, WhatEndsARequestOfHttpMayFollowIt) {
  const Message message = Acknowledge{.round = {.term = 1, .number = 2}};
  const auto decoded = decode(encode(message) + std::string(kEndOfRequest));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Acknowledge>(*decoded), std::get<Acknowledge>(message));
}

TEST(MessageJson, AHelloOfALifeLineComesBackAsItWent) {
  const LifelineHello hello{
      .job = "j\xC3\xA9",
      .node = Incarnation{UINT64_MAX},
      .leadership = {.term = 7, .leader = Incarnation{1}},
      .proof = "ab"};
  EXPECT_EQ(decode_line(encode(hello)).value(), hello);
  EXPECT_EQ(
      decode_line(
          R"({"job":"j","incarnation":"A1","leadership":{"term":7,"leader":"00000000000000b2"},"proof":""})")
          .error()
          .detail,
      "lifeline: hello.incarnation is not 16 lowercase hex digits");
  EXPECT_EQ(decode_line("no").error().detail, "lifeline: it is not valid JSON");
}

}  // namespace
}  // namespace ddprun
