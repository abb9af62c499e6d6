#pragma once

// When a run writes which files for the scripts of other programs, and what of its flags stands in
// them. python_checkpoint.hpp lays the files out, trainer/checkpoints.cpp writes them.

#include "trainer/core/optimizer_options.hpp"
#include "trainer/core/python_checkpoint.hpp"
#include "trainer/core/schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Epochs between two files, as the program that the style is named after has it by default.
std::int64_t checkpoint_interval(CheckpointStyle style);

/// Whether a file is written behind an epoch, the `number`th of the run, from 0. Those programs
/// that ask for `epoch % every == 0` of an epoch counted from 0 begin with the first, the others
/// with the `every`th. The last epoch always has a file, so that an interval loses nothing.
bool is_checkpoint_due(
    CheckpointStyle style, std::int64_t number, std::int64_t every, bool is_last);

/// Whether the state before the first epoch has a file, too.
bool has_first_checkpoint(CheckpointStyle style);

/// Whether each rank writes a file of its own; else rank 0 alone does.
bool is_of_each_rank(CheckpointStyle style);

/// What the copy of the best file is called; empty where there is none.
std::string best_file_name(CheckpointStyle style);

/// Whether `name` is what a process that was killed left of a file of `rank`: the file's name, and
/// behind it ".<process>.tmp". `file_name` is what the style's one file is called, if otherwise.
bool is_leftover_checkpoint(
    CheckpointStyle style,
    int rank,
    std::string_view name,
    const std::optional<std::string>& file_name = std::nullopt);

/// The settings of Python's optimizer of the same kind, for optimizer_group().
PyDict optimizer_settings(const OptimizerOptions& options, double learning_rate);

/// What state_dict() of torch's StepLR gives when `next_epoch` comes next, its rate being
/// `learning_rate`; empty for other schedules, of which Python's classes know nothing.
PyDict schedule_state(
    const ScheduleOptions& options, std::int64_t next_epoch, double learning_rate);

}  // namespace ddprun
