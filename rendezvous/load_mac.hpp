#pragma once

#include "base/error.hpp"
#include "rendezvous/core/auth_proof.hpp"

#include <string>

namespace ddprun {

/// HMAC-SHA256 (RFC 2104) under `key`; none if it is empty. Fails as load_libcrypto() does.
Result<Mac> load_mac(const std::string& key);

}  // namespace ddprun
