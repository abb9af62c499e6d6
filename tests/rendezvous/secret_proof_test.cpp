#include "rendezvous/core/secret_proof.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Side = SecretProof::Side;

const std::string kOne(32, '1');
const std::string kTwo(32, '2');

/// A MAC that shows its input; the real one is tested in tests/base.
Mac mac_with(const std::string& secret) {
  return [secret](std::string_view text) {
    std::string code = secret + ":" + std::string(text);
    std::ranges::replace(code, ' ', '_');
    return code;
  };
}

TEST(SecretProof, BothSidesProveThatTheyKnowIt) {
  SecretProof caller(Side::kCaller, mac_with("s"), kOne);
  SecretProof called(Side::kCalled, mac_with("s"), kTwo);
  EXPECT_EQ(called.begin(), "");
  const std::string challenge = caller.begin();
  EXPECT_EQ(challenge, "challenge " + kOne);
  EXPECT_TRUE(asks_for_secret(challenge));
  const std::string response = called.answer(challenge).value();
  EXPECT_EQ(response, "response " + kTwo + " s:called_" + kOne + "_" + kTwo);
  EXPECT_FALSE(called.is_done());
  const std::string proof = caller.answer(response).value();
  EXPECT_EQ(proof, "proof s:caller_" + kOne + "_" + kTwo);
  EXPECT_TRUE(caller.is_done());
  EXPECT_EQ(called.answer(proof).value(), "");
  EXPECT_TRUE(called.is_done());
}

TEST(SecretProof, AnotherSecretIsFoundByEitherSide) {
  SecretProof caller(Side::kCaller, mac_with("s"), kOne);
  SecretProof called(Side::kCalled, mac_with("t"), kTwo);
  const std::string response = called.answer(caller.begin()).value();
  EXPECT_THAT(caller.answer(response).error().detail, HasSubstr("differ"));
  EXPECT_THAT(
      called.answer("proof s:caller_" + kOne + "_" + kTwo).error().detail, HasSubstr("differ"));
  EXPECT_FALSE(caller.is_done());
  EXPECT_FALSE(called.is_done());
}

TEST(SecretProof, AnAnswerThatIsSentBackProvesNothing) {
  SecretProof called(Side::kCalled, mac_with("s"), kTwo);
  const std::string response = called.answer("challenge " + kOne).value();
  EXPECT_FALSE(called.answer("proof " + response.substr(response.rfind(' ') + 1)));
}

TEST(SecretProof, AnythingElseIsNoProof) {
  for (const std::string& words :
       {std::string(),
        std::string("{\"type\":\"hello\"}"),
        std::string("challenge"),
        std::string("challenge 12"),
        "challenge " + std::string(32, 'G'),
        "challenge " + kOne + " more",
        "response " + kOne,
        fmt::format("proof s:caller_{}_{}", kOne, kTwo)}) {
    SecretProof caller(Side::kCaller, mac_with("s"), kOne);
    SecretProof called(Side::kCalled, mac_with("s"), kTwo);
    EXPECT_FALSE(caller.answer(words)) << words;
    EXPECT_FALSE(called.answer(words)) << words;
  }
}

}  // namespace
}  // namespace ddprun
