#pragma once

// How two agents prove to each other that they know the job's secret, before the first message and
// without sending it. Each frame is a line of tokens:
//
//   caller   challenge NONCE
//   called   response NONCE MAC      MAC of "called", both nonces
//   caller   proof MAC               MAC of "caller", both nonces
//
// Each connection has a new nonce, so no answer serves twice; the two MACs differ, so
// none can be sent back. What is sent afterwards is neither hidden nor signed.

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

/// HMAC-SHA256 under the job's secret, in hex.
using Mac = std::function<std::string(std::string_view text)>;

class SecretProof {
 public:
  enum class Side : std::uint8_t { kCaller, kCalled };

  /// `nonce` is 32 hex digits of chance.
  SecretProof(Side side, Mac mac, std::string nonce);

  /// What the caller sends first; empty on the called side.
  std::string begin() const;

  /// The reply to what the other side sent; empty: none. Fails with kProtocol, and says what to
  /// do, when the other side does not know the secret. REQUIRES: not is_done().
  Result<std::string> answer(std::string_view frame);

  /// The other side has proved that it knows the secret, and been told all that it needs.
  bool is_done() const { return is_done_; }

 private:
  std::string mac_of(std::string_view side) const;

  Side side_;
  Mac mac_;
  std::string nonce_;
  std::string other_nonce_;
  bool is_done_ = false;
};

/// Compares all of both, so that the time it takes tells a guesser nothing.
bool are_equal(std::string_view one, std::string_view other);

/// Whether `frame` begins a proof, which somebody without a secret cannot answer.
bool asks_for_secret(std::string_view frame);

}  // namespace ddprun
