#include "rendezvous/core/secret_proof.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr std::size_t kNonceDigits = 32;

constexpr std::string_view kChallenge = "challenge";
constexpr std::string_view kResponse = "response";
constexpr std::string_view kProof = "proof";

constexpr std::string_view kNoProof = "peer did not authenticate";

Error unproved(std::string_view how) {
  return make_error(
      Errc::kProtocol, fmt::format("{}; give every node of the job the same --secret-file", how));
}

bool is_nonce(std::string_view text) {
  return text.size() == kNonceDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

SecretProof::SecretProof(Side side, Mac mac, std::string nonce)
    : side_(side), mac_(std::move(mac)), nonce_(std::move(nonce)) {
  DDPRUN_CHECK(is_nonce(nonce_));
}

std::string SecretProof::begin() const {
  return side_ == Side::kCaller ? fmt::format("{} {}", kChallenge, nonce_) : std::string();
}

Result<std::string> SecretProof::answer(std::string_view frame) {
  DDPRUN_CHECK(!is_done_);
  const std::vector<std::string_view> fields = split(frame, ' ');
  const bool is_first = other_nonce_.empty();
  if (is_first && (fields.size() < 2 || !is_nonce(fields[1]))) {
    return unproved(kNoProof);
  }
  if (is_first) other_nonce_ = fields[1];
  if (side_ == Side::kCalled && is_first && fields[0] == kChallenge && fields.size() == 2) {
    return fmt::format("{} {} {}", kResponse, nonce_, mac_of("called"));
  }
  const bool has_answered = side_ == Side::kCaller
                                ? fields[0] == kResponse && fields.size() == 3
                                : !is_first && fields[0] == kProof && fields.size() == 2;
  if (!has_answered) return unproved(kNoProof);
  const std::string_view other = side_ == Side::kCaller ? "called" : "caller";
  if (!are_equal(fields.back(), mac_of(other)))
    return unproved("the secrets of the two nodes differ");
  is_done_ = true;
  if (side_ == Side::kCalled) return std::string();
  return fmt::format("{} {}", kProof, mac_of("caller"));
}

std::string SecretProof::mac_of(std::string_view side) const {
  const bool calls = side_ == Side::kCaller;
  return mac_(
      fmt::format("{} {} {}", side, calls ? nonce_ : other_nonce_, calls ? other_nonce_ : nonce_));
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

bool asks_for_secret(std::string_view frame) {
  return frame.starts_with(kChallenge);
}

}  // namespace ddprun
