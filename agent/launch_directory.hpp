#pragma once

// The directory of one launch, which contains the workers' logs and events.jsonl. It lies on a disk
// that may not respond.

#include "agent/core/launch_plan.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string_view>

#include <sys/types.h>

namespace ddprun {

struct LaunchDirectory {
  std::filesystem::path path;  // `<log-dir>/<run_id>_<random>`; empty: there are to be no files
  bool is_ours = false;        // its parent was created under $TMPDIR, without --log-dir
};

/// This process's file mode creation mask. REQUIRES: no other thread creates a file meanwhile.
mode_t own_umask();

/// Creates the directory unless `plan` wants no files. For a thread that may block. Fails if a
/// directory cannot be created or written, naming it: with kInvalidArgument if the value is wrong,
/// else with kIo.
Result<LaunchDirectory> open_launch_directory(
    const StreamsPlan& plan, std::string_view run_id, mode_t umask);

/// Removes it if it is ours. For a thread that may block.
void remove_launch_directory(const LaunchDirectory& directory);

/// Creates a directory and its parents. Fails as open_launch_directory() does.
Result<void> make_directories(const std::filesystem::path& directory);

}  // namespace ddprun
