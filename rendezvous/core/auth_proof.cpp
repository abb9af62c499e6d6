#include "rendezvous/core/auth_proof.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"
#include "rendezvous/core/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr std::size_t kNonceDigits = 32;

constexpr std::string_view kChallenge = "challenge";
constexpr std::string_view kResponse = "response";
constexpr std::string_view kProof = "proof";

constexpr std::string_view kSameSecret = "give every node of the job the same --secret-file";

Error unproved(std::string_view how, AuthMethod method) {
  const bool is_secret = method == AuthMethod::kSecret;
  return make_error(
      Errc::kProtocol,
      fmt::format("{}; {}", how, is_secret ? kSameSecret : "start every node as the same user"));
}

Error unproved(AuthMethod method) {
  return unproved("peer did not authenticate", method);
}

std::string_view phrase_of(AuthMethod method) {
  switch (method) {
    case AuthMethod::kNone:
      return "does not authenticate";
    case AuthMethod::kSecret:
      return "has a secret";
    case AuthMethod::kMunge:
      return "authenticates with MUNGE";
  }
  return "";
}

}  // namespace

bool is_nonce(std::string_view text) {
  return text.size() == kNonceDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

AuthProof::AuthProof(Side side, AuthKey own, std::string nonce)
    : side_(side), own_(std::move(own)), nonce_(std::move(nonce)) {
  DDPRUN_CHECK(own_.method != AuthMethod::kNone && is_nonce(nonce_));
}

std::string AuthProof::begin() const {
  if (side_ == Side::kCalled) return {};
  return fmt::format("{} {} {}{}", kChallenge, name_of(own_.method), nonce_, kEndOfRequest);
}

Result<std::string> AuthProof::answer(std::string_view frame) {
  DDPRUN_CHECK(!is_done_ && sealed_.empty());
  const std::vector<std::string_view> tokens = split(frame, ' ');
  if (side_ == Side::kCaller) return take_response(tokens);
  if (other_nonce_.empty()) return respond(frame);
  if (tokens.size() != 2 || tokens[0] != kProof) return unproved(own_.method);
  if (!are_equal(tokens[1], mac_of("caller"))) return differing();
  is_done_ = true;
  return std::string();
}

Result<std::string> AuthProof::respond(std::string_view challenge) {
  const AuthMethod method = method_in_challenge(challenge).value_or(AuthMethod::kNone);
  if (method != own_.method) {
    return make_error(Errc::kProtocol, auth_mismatch(method, own_.method));
  }
  other_nonce_ = split(trim(challenge), ' ').back();
  std::string response = fmt::format("{} {} {}", kResponse, nonce_, mac_of("called"));
  if (method == AuthMethod::kMunge) response += fmt::format(" {}", own_.credential);
  return response;
}

Result<std::string> AuthProof::take_response(const std::vector<std::string_view>& tokens) {
  const bool is_munge = own_.method == AuthMethod::kMunge;
  const bool is_response = tokens.size() == (is_munge ? 4U : 3U) && tokens[0] == kResponse &&
                           is_nonce(tokens[1]) && !tokens.back().empty();
  if (!is_response) return unproved(own_.method);
  other_nonce_ = tokens[1];
  called_mac_ = tokens[2];
  if (!is_munge) return prove();
  sealed_ = tokens[3];
  return std::string();
}

Result<std::string> AuthProof::take_key(Mac mac) {
  DDPRUN_CHECK(!std::exchange(sealed_, {}).empty());
  own_.mac = std::move(mac);
  return prove();
}

Result<std::string> AuthProof::prove() {
  if (!are_equal(called_mac_, mac_of("called"))) return differing();
  is_done_ = true;
  return fmt::format("{} {}", kProof, mac_of("caller"));
}

std::string AuthProof::mac_of(std::string_view side) const {
  const bool calls = side_ == Side::kCaller;
  return own_.mac(
      fmt::format("{} {} {}", side, calls ? nonce_ : other_nonce_, calls ? other_nonce_ : nonce_));
}

Error AuthProof::differing() const {
  const bool is_secret = own_.method == AuthMethod::kSecret;
  return unproved(
      is_secret ? "the secrets of the two nodes differ" : "the proofs of the two nodes differ",
      own_.method);
}

// Not CRYPTO_memcmp: libcrypto is loaded only by load_mac(), and cores link no library.
bool are_equal(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned int difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

std::string_view name_of(AuthMethod method) {
  return kAuthMethods.at(static_cast<std::size_t>(method));
}

std::optional<AuthMethod> method_in_challenge(std::string_view frame) {
  const std::vector<std::string_view> tokens = split(trim(frame), ' ');
  if (tokens.size() != 3 || tokens[0] != kChallenge || !is_nonce(tokens[2])) return std::nullopt;
  for (const AuthMethod method : {AuthMethod::kSecret, AuthMethod::kMunge}) {
    if (tokens[1] == name_of(method)) return method;
  }
  return std::nullopt;
}

std::string auth_mismatch(AuthMethod caller, AuthMethod called) {
  const bool has_munge = caller == AuthMethod::kMunge || called == AuthMethod::kMunge;
  return fmt::format(
      "the caller {}, and the node that it called {}; {}",
      phrase_of(caller),
      phrase_of(called),
      has_munge ? "see that munged runs on every node, or give all of them the same --auth"
                : kSameSecret);
}

}  // namespace ddprun
