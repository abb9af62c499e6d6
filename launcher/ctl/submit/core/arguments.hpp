#pragma once

// The command line of `ddpctl submit`: sbatch's own, with two options more.

#include "base/error.hpp"
#include "slurm/core/sbatch_command.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Either a script or --wrap is there, never both.
struct SubmitOptions {
  bool asks_help = false;  // then nothing else counts
  bool dry_run = false;
  std::string code_dir;  // empty: in the repository itself
  SbatchCommand sbatch;  // without ours

  bool operator==(const SubmitOptions&) const = default;
};

/// Reads what stands behind `ddpctl submit`. Fails with kInvalidArgument.
Result<SubmitOptions> parse_submit(const std::vector<std::string>& arguments);

std::string_view submit_help();

}  // namespace ddprun
