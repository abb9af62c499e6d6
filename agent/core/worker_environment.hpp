#pragma once

// What differs from worker to worker: its environment, and the variables in its command.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"
#include "rendezvous/core/effects.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// What differs between workers and between attempts.
struct WorkerPlace {
  int local_rank = 0;
  effects::StartWorkers round;
  std::string interface;    // for Gloo and NCCL; empty: they choose themselves
  std::string error_file;   // empty: none
  std::string notice_file;  // empty: none
  std::string timer_file;   // a FIFO for timers (file_timer.hpp); empty: none
  std::string step_file;    // of contract::StepSlot, by local rank; empty: none
  std::string stack_file;   // where it writes its stacks when it is asked to; empty: none

  /// In the world.
  int rank() const { return round.place.first_rank + local_rank; }
};

/// "NAME=value" entries: `inherited` with everything of docs/worker_contract.md set in it. Our
/// values replace those of an outer launcher. OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING,
/// GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are set only if they were not set before.
///
/// Fails with kInvalidArgument if --virtual-local-rank is given and CUDA_VISIBLE_DEVICES has no
/// entry for this local rank.
Result<std::vector<std::string>> worker_environment(
    const LaunchPlan& plan, const WorkerPlace& place, const std::vector<std::string>& inherited);

/// That of the fork server, which imports modules for all workers: what is the same for each of
/// them, and nothing of a rank or a round.
std::vector<std::string> fork_server_environment(
    const LaunchPlan& plan, const std::vector<std::string>& inherited);

/// `text` with every ${local_rank} and $local_rank replaced; any other $ stays as it is.
std::string with_local_rank(std::string_view text, int local_rank);

/// The first `%` in a token of --wrap that is not a placeholder, with the letter after it: "%x".
/// None if there is none.
std::optional<std::string> unknown_placeholder(std::string_view word);

/// A token of --wrap with %n replaced by this node's rank among the nodes, %r by the rank, %l by
/// the local rank, %w by the world size, %j by the job's id, and %% by a percent sign. REQUIRES: no
/// other %.
std::string with_place(std::string_view word, const WorkerPlace& place, std::string_view run_id);

}  // namespace ddprun
