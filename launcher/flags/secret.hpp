#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <string>

namespace ddprun {

/// What the nodes of a job prove to each other that they know: the content of --secret-file or
/// DDPRUN_SECRET_FILE, without the end of its last line, or DDPRUN_SECRET; empty if there is none.
/// Fails with kInvalidArgument: the file cannot be read, the secret is shorter than 16 bytes or
/// longer than 4096, or both variables are set.
Result<std::string> read_secret(const Options& options, const Environment& environment);

}  // namespace ddprun
