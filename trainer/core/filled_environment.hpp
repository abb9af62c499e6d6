#pragma once

// The environment of a worker, with what no launcher has set filled in, so that `srun ddptrain` and
// `mpirun ddptrain` need none.
//
// Whoever sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT has said all that is needed: ddprun,
// torchrun, a person; and so has who sets WORLD_SIZE=1. Else what is missing comes from Slurm or
// MPI, whose task this process is. What is set, by whomever, is never changed.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The port of the store where nothing says another.
inline constexpr std::uint16_t kUsualMasterPort = 29'500;

/// Where the store may be, if its port is no more than a guess: rank 0 hosts it at the first port
/// that nobody else has, and the others know it by a key in it.
struct StoreSearch {
  std::vector<std::uint16_t> ports;  // at least one
  std::string mark;                  // of this run of this step, and of no other job's

  bool operator==(const StoreSearch&) const = default;
};

struct FilledEnvironment {
  Environment variables;                       // those of the process, and what was filled in
  std::map<std::string, std::string> sources;  // of each that was: the variable it was taken from
  std::optional<StoreSearch> search;           // if MASTER_PORT was made of the job's id
  std::optional<std::string> run_name;         // of a step of Slurm's

  /// None if it is not set.
  std::optional<std::string> find(const std::string& name) const;

  /// Who says it, for messages: its source, or the variable itself.
  std::string said_by(const std::string& name) const;
};

/// Fills in the missing ones of RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT.
///
/// An MPI that was started within a step comes before the step, whose tasks are then its daemons;
/// where both say the same it is the step, which knows more: where rank 0 is. A batch script is no
/// step, and SLURM_PROCID proves nothing there; without any job at all it was set by hand.
///
/// Fails with kInvalidArgument: variables that contradict each other, or a rank without a world.
Result<FilledEnvironment> fill_environment(Environment environment);

/// The six variables for a person or a shell, a line each: "RANK=1  # SLURM_PROCID".
std::string environment_text(const FilledEnvironment& environment);

/// Fails with kInvalidArgument where nobody says which rank this is.
Result<void> require_rank(const FilledEnvironment& environment);

}  // namespace ddprun
