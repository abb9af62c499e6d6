#pragma once

// Which of many runs a run is: one of a job array, one of --independent, or both; and the row of a
// grid file that it takes.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A run among those that differ in their arguments alone.
struct TaskPlace {
  std::optional<std::uint32_t> element;  // SLURM_ARRAY_TASK_ID; none: no job array
  int beside = 1;                        // runs of this element, side by side, >= 1
  int index = 0;                         // this one among them, 0 <= index < beside

  /// Its number, another one for each run: element * beside + index, without an array index.
  std::int64_t id() const;

  /// The row of a grid file it takes, counted from 1: element N takes row N, or as many as it has
  /// runs. Fails with kInvalidArgument where there is neither an array nor another run beside this
  /// one, and for element 0.
  Result<std::int64_t> row() const;
};

/// SLURM_ARRAY_TASK_ID. Fails with kInvalidArgument where it is no number.
Result<std::optional<std::uint32_t>> array_element(const Environment& environment);

/// The words of a row of a grid file: of the lines that are neither empty nor a comment (`#`).
/// Fails with kCorrupt where there is no such row, or its quotes make no sense.
Result<std::vector<std::string>> arguments_of_row(std::string_view grid, std::int64_t row);

}  // namespace ddprun
