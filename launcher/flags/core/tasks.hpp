#pragma once

// Which of many runs a run is: an element of a job array, one of --independent, or both; and the
// row of a grid file that it uses.

#include "base/environment.hpp"
#include "base/error.hpp"

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

}  // namespace ddprun
