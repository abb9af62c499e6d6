#pragma once

#include "base/error.hpp"
#include "rendezvous/core/secret_proof.hpp"

#include <string>

namespace ddprun {

/// What proves that `secret` is known here; none if it is empty. Fails with kNotFound, naming the
/// package that is missing.
Result<Mac> load_mac(const std::string& secret);

}  // namespace ddprun
