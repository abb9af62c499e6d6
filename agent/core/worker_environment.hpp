#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What differs between workers and between attempts.
struct WorkerPlace {
  int local_rank = 0;
  int rank = 0;                 // in the world
  int world_size = 1;           // workers of all nodes
  int group_rank = 0;           // this node's rank among the nodes
  int group_size = 1;           // nodes in this round
  int attempt = 0;              // restarts so far
  std::int64_t term = 1;        // of the leader
  std::int64_t round = 1;       // grows with every attempt; snapshots carry it (R10)
  std::string restart_reason;   // empty in the first attempt
  int previous_world_size = 0;  // 0: this is the first attempt
  Endpoint master;              // the store that all workers use
  std::string error_file;       // empty: none
  std::string notice_file;      // empty: none
  std::string timer_file;       // a FIFO for timers (file_timer.hpp); empty: none
  std::string nodes;            // the host names of the round, comma separated
  std::string interface;        // for Gloo and NCCL; empty: they choose themselves
};

/// "NAME=value" entries: `inherited` with everything of docs/worker_contract.md set in it. Our
/// values replace those of an outer launcher. OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING,
/// GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are set only if they were not set before.
///
/// Fails with kInvalidArgument if --virtual-local-rank is given and CUDA_VISIBLE_DEVICES has no
/// entry for this local rank.
Result<std::vector<std::string>> worker_environment(
    const LaunchPlan& plan, const WorkerPlace& place, const std::vector<std::string>& inherited);

/// `text` with every ${local_rank} and $local_rank replaced; any other $ stays as it is.
std::string with_local_rank(std::string_view text, int local_rank);

}  // namespace ddprun
