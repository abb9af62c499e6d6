#pragma once

// OpenSSL is loaded on demand: a program that starts in milliseconds should not load a library that
// few runs need.

#include "base/error.hpp"
#include "rendezvous/core/auth_proof.hpp"

#include <string>

namespace ddprun {

/// HMAC-SHA256 (RFC 2104) under `key`; none if it is empty. Loads
/// libcrypto for the lifetime of this process. Fails with kNotFound, naming the package to install.
Result<Mac> load_mac(const std::string& key);

}  // namespace ddprun
