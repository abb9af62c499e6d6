#pragma once

// How two agents prove to each other that they may take part in the job, before the first message.
// Each frame is a line of tokens:
//
//   caller   challenge METHOD NONCE
//   called   response NONCE MAC [CREDENTIAL]   MAC of "called", both nonces
//   caller   proof MAC                         MAC of "caller", both nonces
//
// Both MACs are made with the key of the called node: the job's secret, or with MUNGE a random key
// of that node, which its CREDENTIAL transports. MUNGE lets only processes of the same user open
// it. So the called node never waits for MUNGE, however many nodes call.
//
// Each connection has a new nonce, so no answer serves twice; the two MACs differ, so none can be
// sent back. What is sent afterwards is neither hidden nor signed.

#include "base/error.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What a node proves before others talk to it.
enum class AuthMethod : std::uint8_t {
  kNone,    // nothing
  kSecret,  // that it knows the job's secret
  kMunge,   // that it runs as the same user
};

/// Their names on the wire, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kAuthMethods = {"none", "secret", "munge"};

/// What `--auth` asks for.
enum class AuthChoice : std::uint8_t {
  kAuto,  // the secret if one is given, else MUNGE if it answers, else nothing
  kNone,
  kSecret,
  kMunge,
};

/// HMAC-SHA256 under a key, in hex.
using Mac = std::function<std::string(std::string_view text)>;

/// With what a node authenticates others. No MAC of one use equals one of another use: the first
/// token of the text differs.
struct AuthKey {
  AuthMethod method = AuthMethod::kNone;
  Mac mac;                 // under the secret, or this node's own key; none with kNone
  std::string credential;  // with kMunge: that key, for processes of this user; without blanks
};

class AuthProof {
 public:
  enum class Side : std::uint8_t { kCaller, kCalled };

  /// `nonce` is 32 random hex digits. REQUIRES: own.method is not kNone.
  AuthProof(Side side, AuthKey own, std::string nonce);

  /// What the caller sends first; empty on the called side.
  std::string begin() const;

  /// The reply to what the other side sent; empty: none, or none before take_key(). Fails with
  /// kProtocol, and says what to do, if the other side proves nothing. REQUIRES: not is_done(), and
  /// sealed_key() is empty.
  Result<std::string> answer(std::string_view frame);

  /// The credential of the called node, which the caller has to open with MUNGE; empty: it has
  /// nothing to open.
  const std::string& sealed_key() const { return sealed_; }

  /// The reply of the caller, once it has opened sealed_key(). Fails as answer() does. REQUIRES:
  /// sealed_key() is not empty.
  Result<std::string> take_key(Mac mac);

  /// The other side has proved what it has to, and has been told all that it needs.
  bool is_done() const { return is_done_; }

  /// MACs under the key of the called node. REQUIRES: is_done().
  const Mac& mac() const { return own_.mac; }

 private:
  Result<std::string> respond(std::string_view challenge);
  Result<std::string> take_response(const std::vector<std::string_view>& tokens);
  Result<std::string> prove();
  std::string mac_of(std::string_view side) const;
  Error differing() const;

  Side side_;
  AuthKey own_;  // of a caller with MUNGE without the MAC, until take_key()
  std::string nonce_;
  std::string other_nonce_;
  std::string called_mac_;  // that the called node has sent
  std::string sealed_;
  bool is_done_ = false;
};

/// "munge".
std::string_view name_of(AuthMethod method);

/// Whether `text` is 32 hex digits, as each nonce is.
bool is_nonce(std::string_view text);

/// Compares all of both, so that the time it takes tells a guesser nothing.
bool are_equal(std::string_view one, std::string_view other);

/// The method of the proof that `frame` begins; none if it begins no proof.
std::optional<AuthMethod> method_in_challenge(std::string_view frame);

/// Why two nodes with these methods, which differ, do not work together, and what to do.
std::string auth_mismatch(AuthMethod caller, AuthMethod called);

}  // namespace ddprun
