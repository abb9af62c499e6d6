#pragma once

// This worker's values from its launcher (docs/worker_contract.md), Slurm or MPI, read once.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "trainer/core/filled_environment.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// The position of this worker among its peers. 0 <= rank < world.
struct WorkerPlace {
  static constexpr int kWorldMax = 16'384;

  int rank = 0;
  int world = 1;
  int local_rank = 0;  // of local_world ranks on this node
  int local_world = 1;
  std::optional<Endpoint> store;      // none only in a world of 1
  bool agent_store = false;           // the agent hosts the store; else rank 0 does
  std::optional<StoreSearch> search;  // the port of `store` is only the first to try
  std::string run_id;                 // the job's name, for messages
  std::int64_t attempt = 0;           // number of restarts of the workers
  std::uint64_t term = 0;             // with `round`, the owner of written data (R10)
  std::uint64_t round = 0;

  bool operator==(const WorkerPlace&) const = default;
};

/// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the rest. If none is set, this is the only
/// worker and needs no launcher. Fails with kInvalidArgument, naming the variable.
Result<WorkerPlace> parse_worker_place(const FilledEnvironment& environment);

}  // namespace ddprun
