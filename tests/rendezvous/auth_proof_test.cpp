#include "rendezvous/core/auth_proof.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Side = AuthProof::Side;

const std::string kOne(32, '1');
const std::string kTwo(32, '2');
const std::string kThree(32, '3');

/// A MAC that shows its input; the real one is tested in load_mac_test.cpp.
Mac mac_with(const std::string& key) {
  return [key](std::string_view text) {
    std::string code = key + ":" + std::string(text);
    std::ranges::replace(code, ' ', '_');
    return code;
  };
}

AuthKey secret(const std::string& key) {
  return {.method = AuthMethod::kSecret, .mac = mac_with(key), .credential = {}};
}

AuthKey munge(const std::string& key) {
  return {.method = AuthMethod::kMunge, .mac = mac_with(key), .credential = "sealed-" + key};
}

/// A caller and the node that it called.
struct Pair {
  AuthProof caller;
  AuthProof called;

  Pair(AuthKey caller_key, AuthKey called_key)
      : caller(Side::kCaller, std::move(caller_key), kOne),
        called(Side::kCalled, std::move(called_key), kTwo) {}

  std::string response() { return called.answer(caller.begin()).value(); }
};

TEST(AuthProof, BothSidesProveThatTheyKnowTheSecret) {
  auto [caller, called] = Pair(secret("s"), secret("s"));
  EXPECT_EQ(called.begin(), "");
  const std::string challenge = caller.begin();
  EXPECT_EQ(challenge, "challenge secret " + kOne + "\r\n\r\n");
  EXPECT_EQ(method_in_challenge(challenge), AuthMethod::kSecret);
  const std::string response = called.answer(challenge).value();
  EXPECT_EQ(response, "response " + kTwo + " s:called_" + kOne + "_" + kTwo);
  EXPECT_FALSE(called.is_done());
  const std::string proof = caller.answer(response).value();
  EXPECT_EQ(proof, "proof s:caller_" + kOne + "_" + kTwo);
  EXPECT_TRUE(caller.is_done());
  EXPECT_EQ(called.answer(proof).value(), "");
  EXPECT_TRUE(called.is_done());
}

TEST(AuthProof, WithMungeBothProveByTheKeyOfTheCalledNode) {
  auto [caller, called] = Pair(munge("a"), munge("b"));
  EXPECT_EQ(caller.begin(), "challenge munge " + kOne + "\r\n\r\n");
  const std::string response = called.answer(caller.begin()).value();
  EXPECT_EQ(response, "response " + kTwo + " b:called_" + kOne + "_" + kTwo + " sealed-b");
  EXPECT_EQ(caller.answer(response).value(), "");
  EXPECT_EQ(caller.sealed_key(), "sealed-b");
  EXPECT_FALSE(caller.is_done());
  const std::string proof = caller.take_key(mac_with("b")).value();
  EXPECT_EQ(proof, "proof b:caller_" + kOne + "_" + kTwo);
  EXPECT_TRUE(caller.is_done());
  EXPECT_EQ(caller.sealed_key(), "");
  EXPECT_EQ(called.answer(proof).value(), "");
  EXPECT_TRUE(called.is_done());
}

TEST(AuthProof, AnotherSecretIsFoundByEitherSide) {
  auto [caller, called] = Pair(secret("s"), secret("t"));
  const std::string response = called.answer(caller.begin()).value();
  EXPECT_THAT(caller.answer(response).error().detail, HasSubstr("differ"));
  EXPECT_THAT(
      called.answer("proof s:caller_" + kOne + "_" + kTwo).error().detail, HasSubstr("differ"));
  EXPECT_FALSE(caller.is_done());
  EXPECT_FALSE(called.is_done());
}

// The credential of a node is sent to everybody who calls, so it may come from anybody.
TEST(AuthProof, TheCredentialOfAnotherNodeProvesNothing) {
  Pair pair(munge("a"), munge("thief"));
  std::string response = pair.response();
  response = response.substr(0, response.rfind(' ')) + " sealed-b";
  EXPECT_EQ(pair.caller.answer(response).value(), "");
  EXPECT_THAT(pair.caller.take_key(mac_with("b")).error().detail, HasSubstr("differ"));
  EXPECT_FALSE(pair.caller.is_done());
}

TEST(AuthProof, TheKeyOfTheCallerProvesNothing) {
  auto [caller, called] = Pair(munge("a"), munge("b"));
  ASSERT_TRUE(called.answer(caller.begin()));
  EXPECT_FALSE(called.answer("proof a:caller_" + kOne + "_" + kTwo));
}

TEST(AuthProof, AnAnswerThatIsSentBackProvesNothing) {
  for (const AuthKey& key : {secret("s"), munge("s")}) {
    Pair pair(key, key);
    std::string response = pair.response();
    response.resize(response.rfind(kTwo) + kTwo.size());
    EXPECT_FALSE(pair.called.answer("proof " + response.substr(response.rfind(' ') + 1)));
  }
}

// Frames of an earlier connection, which somebody has recorded.
TEST(AuthProof, NoRecordedFrameServesTwice) {
  for (const AuthKey& key : {secret("s"), munge("s")}) {
    Pair recorded(key, key);
    const std::string challenge = recorded.caller.begin();
    const std::string response = recorded.called.answer(challenge).value();
    std::string proof = recorded.caller.answer(response).value();
    if (proof.empty()) proof = recorded.caller.take_key(key.mac).value();
    ASSERT_TRUE(recorded.called.answer(proof));

    AuthProof called(Side::kCalled, key, kThree);
    ASSERT_TRUE(called.answer(challenge));
    EXPECT_FALSE(called.answer(proof));

    AuthProof caller(Side::kCaller, key, kThree);
    auto replied = caller.answer(response);
    if (replied && !caller.sealed_key().empty()) replied = caller.take_key(key.mac);
    EXPECT_FALSE(replied);
    EXPECT_FALSE(caller.is_done());
  }
}

TEST(AuthProof, TwoMethodsAreRefusedWithBothNamed) {
  const AuthProof caller(Side::kCaller, munge("a"), kOne);
  AuthProof called(Side::kCalled, secret("s"), kTwo);
  EXPECT_EQ(
      called.answer(caller.begin()).error().detail,
      "the caller authenticates with MUNGE, and the node that it called has a secret; see that "
      "munged runs on every node, or give all of them the same --auth");
}

TEST(AuthProof, WhoProvesNothingIsToldWhatTheCalledNodeExpects) {
  AuthProof called(Side::kCalled, munge("b"), kTwo);
  EXPECT_EQ(
      called.answer("{\"type\":\"hello\"}").error().detail,
      "the caller does not authenticate, and the node that it called authenticates with MUNGE; see "
      "that munged runs on every node, or give all of them the same --auth");
}

TEST(AuthProof, AnythingElseIsNoProof) {
  for (const std::string& frame :
       {std::string(),
        std::string("{\"type\":\"hello\"}"),
        std::string("challenge"),
        std::string("challenge secret 12"),
        "challenge " + kOne,
        "challenge none " + kOne,
        "challenge secret " + std::string(32, 'G'),
        "challenge secret " + kOne + " more",
        "response " + kOne,
        "response " + kOne + " ",
        fmt::format("proof s:caller_{}_{}", kOne, kTwo)}) {
    for (const AuthKey& key : {secret("s"), munge("s")}) {
      Pair pair(key, key);
      EXPECT_FALSE(pair.caller.answer(frame)) << frame;
      EXPECT_FALSE(pair.called.answer(frame)) << frame;
    }
  }
}

}  // namespace
}  // namespace ddprun
