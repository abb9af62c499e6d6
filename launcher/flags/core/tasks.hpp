#pragma once

// Which of many runs a run is: an element of a job array, one of --independent, or both; and the
// row of a grid file that it uses.

#include "base/environment.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "slurm/core/allocation.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A run among runs that differ only in their arguments.
struct TaskPlace {
  std::optional<std::uint32_t> element;  // SLURM_ARRAY_TASK_ID; none: not a job array
  int beside = 1;                        // runs of this element, side by side, >= 1
  int index = 0;                         // index of this one among them, 0 <= index < beside

  /// A number that differs for each run: element * beside + index; index if there is no job array.
  std::int64_t id() const;

  /// The row of the grid file that this run uses, counted from 1: element N uses row N, or as many
  /// rows as the element has runs. Fails with kInvalidArgument if there is neither an array nor
  /// another run beside this one, and for element 0.
  Result<std::int64_t> row() const;
};

/// SLURM_ARRAY_TASK_ID. Fails with kInvalidArgument if it is not a number.
Result<std::optional<std::uint32_t>> array_element(const Environment& environment);

/// The arguments in a row of a grid file. Empty lines and comments (`#`) are not rows. Fails with
/// kCorrupt if the row does not exist or its quotes are invalid.
Result<std::vector<std::string>> arguments_of_row(std::string_view grid, std::int64_t row);

/// If --independent is given, sets the flags that it implies: one node and one worker, whatever
/// Slurm has. Fails with kInvalidArgument if another flag contradicts, or the step has more tasks.
Result<void> fill_for_independent(const std::optional<Allocation>& step, CommandLine& line);

/// CUDA_VISIBLE_DEVICES for each of `count` jobs that run side by side on a machine with `gpus`
/// GPUs: one entry each; nullopt if there are no GPUs. Fails with kInvalidArgument if there are
/// fewer GPUs than jobs.
Result<std::vector<std::optional<std::string>>> share_devices(
    int count, int gpus, const Environment& environment);

}  // namespace ddprun
