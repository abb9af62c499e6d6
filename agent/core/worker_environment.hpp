#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What differs from worker to worker and from attempt to attempt.
struct WorkerPlace {
  int local_rank = 0;
  int rank = 0;                 // in the world
  int world_size = 1;           // workers of all nodes
  int group_rank = 0;           // this node's place among the nodes
  int group_size = 1;           // nodes in this round
  int attempt = 0;              // restarts so far
  std::int64_t term = 1;        // of leadership
  std::int64_t round = 1;       // grows with every attempt; snapshots carry it (R10)
  std::string restart_reason;   // empty in the first attempt
  int previous_world_size = 0;  // 0: this is the first attempt
  Endpoint master;              // where all of them meet
  std::string error_file;       // empty: none
  std::string notice_file;      // empty: none
  std::string timer_file;       // a FIFO for timers (file_timer.hpp); empty: none
  std::string nodes;            // the host names of the round, comma separated
  std::string interface;        // of the network, for Gloo and NCCL; empty: they choose
};

/// "NAME=value" entries: `inherited` with everything of docs/worker_contract.md set in it. What we
/// set replaces what an outer launcher left there; OMP_NUM_THREADS,
/// TORCH_NCCL_ASYNC_ERROR_HANDLING, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are set only where
/// nobody did.
///
/// Fails with kInvalidArgument where `--virtual-local-rank` meets a CUDA_VISIBLE_DEVICES that is
/// too short for this local rank.
Result<std::vector<std::string>> worker_environment(
    const LaunchPlan& plan, const WorkerPlace& place, const std::vector<std::string>& inherited);

/// `text` with every ${local_rank} and $local_rank replaced; any other $ stays as it is.
std::string with_local_rank(std::string_view text, int local_rank);

}  // namespace ddprun
