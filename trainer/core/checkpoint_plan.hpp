#pragma once

// When a run writes which files for the scripts of other programs, and which of its flags they
// contain. python_checkpoint.hpp defines the content, trainer/checkpoints.cpp writes the files.

#include "trainer/core/optimizer_options.hpp"
#include "trainer/core/python_checkpoint.hpp"
#include "trainer/core/schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Epochs between two files: the default of the program that the style is named after.
std::int64_t checkpoint_interval(CheckpointStyle style);

/// Whether a file is written after epoch `number` of the run, from 0. Programs that test `epoch %
/// every == 0` on an epoch counted from 0 begin with the first epoch, the others with epoch
/// `every`. The last epoch always has a file, so that an interval loses nothing.
bool is_checkpoint_due(
    CheckpointStyle style, std::int64_t number, std::int64_t every, bool is_last);

/// Whether there is also a file of the state before the first epoch.
bool has_first_checkpoint(CheckpointStyle style);

/// Whether each rank writes its own file; else only rank 0 writes one.
bool is_of_each_rank(CheckpointStyle style);

/// The name of the copy of the best file; empty if the style has none.
std::string best_file_name(CheckpointStyle style);

/// Whether `name` is a partial file of `rank` that a killed process left: the file's name with
/// ".<process>.tmp" appended. `file_name`: the style's file name, if not the default.
bool is_leftover_checkpoint(
    CheckpointStyle style,
    int rank,
    std::string_view name,
    const std::optional<std::string>& file_name = std::nullopt);

/// The settings of Python's optimizer of the same kind, for optimizer_group().
PyDict optimizer_settings(const OptimizerOptions& options, double learning_rate);

/// The state_dict() of torch's StepLR before `next_epoch`, at the rate `learning_rate`; empty for
/// other schedules, which have no Python class.
PyDict schedule_state(
    const ScheduleOptions& options, std::int64_t next_epoch, double learning_rate);

}  // namespace ddprun
