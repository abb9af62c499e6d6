#pragma once

// What the launcher told this worker: docs/worker_contract.md, read once.

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddprun {

/// Looks a variable of the environment up.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Who this worker is among its peers. 0 <= rank < world.
struct WorkerPlace {
  static constexpr int kWorldMax = 16'384;

  int rank = 0;
  int world = 1;
  std::optional<Endpoint> store;  // none only in a world of 1
  bool agent_store = false;       // the agent hosts the store; else rank 0 does
  std::string run_id;             // the job's name, for messages
  std::int64_t attempt = 0;       // how often the workers were restarted
  std::uint64_t generation = 0;   // with `round`, the owner of what is written (R10)
  std::uint64_t round = 0;

  bool operator==(const WorkerPlace&) const = default;
};

/// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the rest. With none of them set this is the
/// only worker, and needs no launcher. Fails with kInvalidArgument, naming the variable.
Result<WorkerPlace> parse_worker_place(const Environment& environment);

}  // namespace ddprun
