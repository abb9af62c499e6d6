#include "rendezvous/auth.hpp"

#include "base/check.hpp"
#include "rendezvous/errand.hpp"
#include "rendezvous/load_mac.hpp"
#include "rendezvous/munge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kNonceBytes = 16;

// Before the key, so that nothing else that the user seals with MUNGE passes for one.
constexpr std::string_view kLabel = "ddprun ";

/// At most kKeyBytes of chance.
std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, kKeyBytes> chance{};
  DDPRUN_CHECK(::getentropy(chance.data(), bytes) == 0);
  return fmt::format("{:02x}", fmt::join(std::span(chance).first(bytes), ""));
}

Result<AuthKey> with_secret(const std::string& secret) {
  auto mac = load_mac(secret);
  if (!mac) return mac.error();
  return AuthKey{.method = AuthMethod::kSecret, .mac = *std::move(mac), .credential = {}};
}

Result<AuthKey> with_munge() {
  const std::string key = random_hex(kKeyBytes);
  auto credential = munge_seal(fmt::format("{}{}", kLabel, key));
  if (!credential) return credential.error();
  auto mac = load_mac(key);
  if (!mac) return mac.error();
  return AuthKey{
      .method = AuthMethod::kMunge, .mac = *std::move(mac), .credential = *std::move(credential)};
}

}  // namespace

Result<AuthKey> make_auth_key(AuthChoice choice, const std::string& secret) {
  switch (choice) {
    case AuthChoice::kNone:
      return AuthKey();
    case AuthChoice::kSecret:
      return with_secret(secret);
    case AuthChoice::kMunge:
      return with_munge();
    case AuthChoice::kAuto:
      break;
  }
  if (!secret.empty()) return with_secret(secret);
  auto key = with_munge();
  return key ? *std::move(key) : AuthKey();
}

Result<Mac> open_credential(const std::string& credential) {
  const auto opened = munge_open(credential);
  if (!opened) return opened.error();
  if (!opened->starts_with(kLabel) || opened->size() != kLabel.size() + 2 * kKeyBytes) {
    return make_error(Errc::kProtocol, "its credential is that of another program");
  }
  return load_mac(opened->substr(kLabel.size()));
}

asio::awaitable<Result<Mac>> open_in_background(std::string credential, TimePoint deadline) {
  auto opening = Errand<Mac>::begin("cannot ask MUNGE", [credential = std::move(credential)] {
    return open_credential(credential);
  });
  if (!opening) co_return opening.error();
  Timer limit(co_await asio::this_coro::executor, deadline);
  auto opened = co_await (*opening)->await(limit);
  if (!opened) co_return make_error(Errc::kTimedOut, "MUNGE: munged does not answer here");
  co_return *std::move(opened);
}

std::string random_nonce() {
  return random_hex(kNonceBytes);
}

}  // namespace ddprun
