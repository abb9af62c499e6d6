#include "rendezvous/core/status_proof.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{100h};

/// 64 hex digits that depend on key and text; the real MAC is tested in load_mac_test.cpp.
Mac mac_with(std::uint64_t key) {
  return [key](std::string_view text) {
    std::uint64_t sum = key;
    for (const char letter : text)
      sum = sum * 1'099'511'628'211ULL + static_cast<unsigned char>(letter);
    return fmt::format("{0:016x}{0:016x}{1:016x}{1:016x}", sum, sum * 31);
  };
}

AuthKey munge_key() {
  return {.method = AuthMethod::kMunge, .mac = mac_with(7), .credential = "MUNGE:AwQ+/=:"};
}

/// What somebody who can open the credential of `header` replies.
std::string answer_to(const std::string& header, const Mac& mac) {
  return authorization_header(mac, parse_challenge(header).value().nonce);
}

TEST(StatusProof, AChallengeNamesMethodNonceAndCredential) {
  const auto challenge = parse_challenge(challenge_header(munge_key(), kNow));
  ASSERT_TRUE(challenge);
  EXPECT_EQ(challenge->method, AuthMethod::kMunge);
  EXPECT_EQ(challenge->credential, "MUNGE:AwQ+/=:");
  EXPECT_TRUE(is_nonce(challenge->nonce));
}

TEST(StatusProof, TheUserOfTheJobReadsTheWholePage) {
  const AuthKey key = munge_key();
  EXPECT_TRUE(is_authorized(key, answer_to(challenge_header(key, kNow), key.mac), kNow));
}

TEST(StatusProof, AnotherKeyProvesNothing) {
  const AuthKey key = munge_key();
  EXPECT_FALSE(is_authorized(key, answer_to(challenge_header(key, kNow), mac_with(8)), kNow));
}

TEST(StatusProof, ARecordedRequestExpiresWithinTwoMinutes) {
  const AuthKey key = munge_key();
  const std::string recorded = answer_to(challenge_header(key, kNow), key.mac);
  EXPECT_TRUE(is_authorized(key, recorded, kNow + 1min));
  EXPECT_FALSE(is_authorized(key, recorded, kNow + 2min));
}

TEST(StatusProof, ANonceOfSomebodyElseProvesNothing) {
  const AuthKey key = munge_key();
  EXPECT_FALSE(is_authorized(key, authorization_header(key.mac, std::string(32, 'a')), kNow));
}

TEST(StatusProof, AnythingElseIsNoProof) {
  const AuthKey key = munge_key();
  for (const char* const header : {"", "DDPRUN", "DDPRUN  ", "Basic dXNlcg==", "DDPRUN 12 34"}) {
    EXPECT_FALSE(is_authorized(key, header, kNow)) << header;
  }
  for (const char* const header :
       {"",
        "Basic realm=\"x\"",
        "DDPRUN",
        "DDPRUN method=\"munge\", nonce=\"12\"",
        "DDPRUN method=\"none\", nonce=\"0123456789abcdef0123456789abcdef\"",
        "DDPRUN method=\"munge\", nonce=\"0123456789abcdef0123456789abcdef\""}) {
    EXPECT_FALSE(parse_challenge(header)) << header;
  }
}

}  // namespace
}  // namespace ddprun
