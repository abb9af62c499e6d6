#include "rendezvous/core/status_proof.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace ddprun {
namespace {

constexpr std::string_view kScheme = "DDPRUN";
constexpr std::size_t kStatusNonceDigits = 32;

std::int64_t minute_of(TimePoint now) {
  return std::chrono::floor<std::chrono::minutes>(now.time_since_epoch()).count();
}

std::string nonce_of(const Mac& mac, std::int64_t minute) {
  return mac(fmt::format("minute {}", minute)).substr(0, kStatusNonceDigits);
}

/// What follows `name="` in `header`, up to the next quote; empty if it is not there.
std::string value_of(std::string_view header, std::string_view name) {
  const std::string before = fmt::format(" {}=\"", name);
  const std::size_t begin = header.find(before);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = header.substr(begin + before.size());
  return std::string(rest.substr(0, rest.find('"')));
}

}  // namespace

std::string challenge_header(const AuthKey& key, TimePoint now) {
  DDPRUN_CHECK(key.method != AuthMethod::kNone);
  std::string header = fmt::format(
      "{} method=\"{}\", nonce=\"{}\"",
      kScheme,
      name_of(key.method),
      nonce_of(key.mac, minute_of(now)));
  if (!key.credential.empty()) header += fmt::format(", credential=\"{}\"", key.credential);
  return header;
}

std::optional<StatusChallenge> parse_challenge(std::string_view header) {
  if (!header.starts_with(kScheme)) return std::nullopt;
  StatusChallenge challenge{
      .nonce = value_of(header, "nonce"), .credential = value_of(header, "credential")};
  const std::string method = value_of(header, "method");
  if (method == name_of(AuthMethod::kSecret)) challenge.method = AuthMethod::kSecret;
  if (method == name_of(AuthMethod::kMunge)) challenge.method = AuthMethod::kMunge;
  const bool has_key = challenge.method == AuthMethod::kSecret || !challenge.credential.empty();
  const bool is_whole =
      challenge.method != AuthMethod::kNone && has_key && is_nonce(challenge.nonce);
  return is_whole ? std::optional(challenge) : std::nullopt;
}

std::string authorization_header(const Mac& mac, std::string_view nonce) {
  DDPRUN_CHECK(is_nonce(nonce));
  return fmt::format("{} {} {}", kScheme, nonce, mac(fmt::format("status {}", nonce)));
}

bool is_authorized(const AuthKey& key, std::string_view header, TimePoint now) {
  const std::vector<std::string_view> tokens = split(header, ' ');
  if (tokens.size() != 3 || tokens[0] != kScheme || !is_nonce(tokens[1])) return false;
  const std::int64_t minute = minute_of(now);
  const bool is_ours = are_equal(tokens[1], nonce_of(key.mac, minute)) ||
                       are_equal(tokens[1], nonce_of(key.mac, minute - 1));
  return is_ours && are_equal(tokens[2], key.mac(fmt::format("status {}", tokens[1])));
}

}  // namespace ddprun
