#pragma once

// `--wrap`: a command that each worker is run by, with words of its own for each.

#include "agent/core/worker_environment.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// The first `%` in a word of --wrap that stands for nothing, with the letter behind it: "%x". None
/// where all of them do.
std::optional<std::string> unknown_placeholder(std::string_view word);

/// A word of --wrap with %n become this node's place among the nodes, %r the rank, %l the local
/// rank, %w the world size, %j the job's id, and %% a percent sign. REQUIRES: it has no other %.
std::string with_place(std::string_view word, const WorkerPlace& place, std::string_view run_id);

}  // namespace ddprun
