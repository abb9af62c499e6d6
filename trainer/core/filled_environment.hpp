#pragma once

// The environment of a worker, with the variables that no launcher has set filled in, so that `srun
// ddptrain` and `mpirun ddptrain` need no launcher.
//
// If RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set (by ddprun, torchrun or a person), or
// WORLD_SIZE=1, nothing else is needed. Otherwise missing ones come from Slurm or MPI, whose task
// this process is. Variables that are set are never changed.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The default port of the store.
inline constexpr std::uint16_t kUsualMasterPort = 29'500;

/// Where the store may be if its port is only a guess: rank 0 hosts it at the first free port, and
/// the others recognize it by a key in it.
struct StoreSearch {
  std::vector<std::uint16_t> ports;  // at least one
  std::string mark;                  // of this run of this step, unlike that of any other job

  bool operator==(const StoreSearch&) const = default;
};

struct FilledEnvironment {
  Environment variables;                       // those of the process, and the filled-in ones
  std::map<std::string, std::string> sources;  // of each filled-in one: the variable it comes from
  std::optional<StoreSearch> search;           // if MASTER_PORT was derived from the job's id
  std::optional<std::string> run_name;         // of a Slurm step

  /// None if it is not set.
  std::optional<std::string> find(const std::string& name) const;

  /// Where its value comes from, for messages: its source, or the variable itself.
  std::string said_by(const std::string& name) const;
};

/// Fills in the missing ones of RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT.
///
/// An MPI started within a step takes precedence over the step, whose tasks are then its daemons.
/// If both agree, the step is used, because it also says where rank 0 is. A batch script is not a
/// step, and SLURM_PROCID proves nothing there; without a job it was set by hand.
///
/// Fails with kInvalidArgument: variables that contradict each other, or a rank without a world.
Result<FilledEnvironment> fill_environment(Environment environment);

/// The six variables for a person or a shell, one line each: "RANK=1  # SLURM_PROCID".
std::string environment_text(const FilledEnvironment& environment);

/// Fails with kInvalidArgument if nothing says which rank this is.
Result<void> require_rank(const FilledEnvironment& environment);

}  // namespace ddprun
