#pragma once

// How somebody who asks for /status proves that they may read all of it. Every reply to a request
// without a proof has a challenge, in the header WWW-Authenticate:
//
//   DDPRUN method="munge", nonce="NONCE", credential="CREDENTIAL"
//
// The request with the proof has, in the header Authorization:
//
//   DDPRUN NONCE MAC
//
// The nonce is a MAC of the current minute, so a node stores nothing for those who ask, and a
// recorded request yields the page for two minutes at most. It changes nothing.

#include "base/time.hpp"
#include "rendezvous/core/auth_proof.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// What a node asks of those who want the whole page.
struct StatusChallenge {
  AuthMethod method = AuthMethod::kNone;
  std::string nonce;
  std::string credential;  // with kMunge

  bool operator==(const StatusChallenge&) const = default;
};

/// The header WWW-Authenticate of a node with `key` at `now`. REQUIRES: key.method is not kNone.
std::string challenge_header(const AuthKey& key, TimePoint now);

/// Reads such a header; none if it is another one.
std::optional<StatusChallenge> parse_challenge(std::string_view header);

/// The header Authorization that answers a challenge with `nonce`. REQUIRES: is_nonce(nonce).
std::string authorization_header(const Mac& mac, std::string_view nonce);

/// Whether such a header answers a challenge of this minute or the last one.
bool is_authorized(const AuthKey& key, std::string_view header, TimePoint now);

}  // namespace ddprun
