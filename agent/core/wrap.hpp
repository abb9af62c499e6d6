#pragma once

// `--wrap`: a command that runs each worker, with placeholders that differ by worker.

#include "agent/core/worker_environment.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// The first `%` in a token of --wrap that is not a placeholder, with the letter after it: "%x".
/// None if there is none.
std::optional<std::string> unknown_placeholder(std::string_view word);

/// A token of --wrap with %n replaced by this node's rank among the nodes, %r by the rank, %l by
/// the local rank, %w by the world size, %j by the job's id, and %% by a percent sign. REQUIRES: no
/// other %.
std::string with_place(std::string_view word, const WorkerPlace& place, std::string_view run_id);

}  // namespace ddprun
