#pragma once

// OpenSSL is loaded on demand: a program that starts in milliseconds should not load a library that
// few runs need.

#include "base/error.hpp"
#include "rendezvous/core/secret_proof.hpp"

#include <string>

namespace ddprun {

/// What proves that `secret` is known here: HMAC-SHA256 (RFC 2104); none if it is empty. Loads
/// libcrypto for the lifetime of this process. Fails with kNotFound, naming the package to install.
Result<Mac> load_mac(const std::string& secret);

}  // namespace ddprun
