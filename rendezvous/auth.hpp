#pragma once

// The shell of core/auth_proof.hpp: makes the key of a node, and opens the keys of others.

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "rendezvous/core/auth_proof.hpp"

#include <string>

namespace ddprun {

/// The key of this node: `secret`, if the choice needs one, or with MUNGE a random one. Blocks: it
/// loads libraries and asks munged. With kAuto it always succeeds, if no secret is given. Otherwise
/// fails with kNotFound if a library is missing, and kIo if munged does not answer.
Result<AuthKey> make_auth_key(AuthChoice choice, const std::string& secret);

/// The MAC under the key in `credential`, which another node of this user has made. Blocks, and
/// fails as munge_open() does.
Result<Mac> open_credential(const std::string& credential);

/// The same, on a thread of its own. Fails with kTimedOut at `deadline`.
asio::awaitable<Result<Mac>> open_in_background(std::string credential, TimePoint deadline);

/// 32 random hex digits.
std::string random_nonce();

}  // namespace ddprun
