#pragma once

#include "base/error.hpp"
#include "launcher/flags/core/options.hpp"

#include <optional>
#include <string>

namespace ddprun {

/// The secret with which the nodes of a job authenticate each other: the content of `secret_file`,
/// as the flag gave it, or of DDPRUN_SECRET_FILE, without the final newline, or DDPRUN_SECRET;
/// empty if none is given. Fails with kInvalidArgument if the file cannot be read, the secret is
/// shorter than 16 bytes or longer than 4096, or both variables are set.
Result<std::string> find_secret(
    const std::optional<Given>& secret_file, const Environment& environment);

/// The same for --auth and --secret-file of ddprun; empty too if --auth overrules a variable. Fails
/// also if --auth is 'secret' and there is none, or another method beside --secret-file.
Result<std::string> read_secret(const Options& options, const Environment& environment);

}  // namespace ddprun
