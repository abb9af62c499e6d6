#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <string>

namespace ddprun {

/// The secret with which the nodes of a job authenticate each other: the content of --secret-file
/// or DDPRUN_SECRET_FILE, without the final newline, or DDPRUN_SECRET; empty if none is given.
/// Fails with kInvalidArgument if the file cannot be read, the secret is shorter than 16 bytes or
/// longer than 4096, or both variables are set.
Result<std::string> read_secret(const Options& options, const Environment& environment);

}  // namespace ddprun
