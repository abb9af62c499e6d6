#pragma once

// The command line of `ddpctl submit`: sbatch's own, with two more options.

#include "base/error.hpp"
#include "slurm/core/sbatch_command.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Has either a script or --wrap, never both.
struct SubmitOptions {
  bool wants_help = false;  // then the other members are unused
  bool dry_run = false;
  std::string code_dir;  // empty: in the repository itself
  SbatchCommand sbatch;  // without our options

  bool operator==(const SubmitOptions&) const = default;
};

/// Reads the arguments after `ddpctl submit`. Fails with kInvalidArgument.
Result<SubmitOptions> parse_submit(const std::vector<std::string>& arguments);

std::string_view submit_help();

}  // namespace ddprun
