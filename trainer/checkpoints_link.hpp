#pragma once

#include "base/error.hpp"

#include <filesystem>

namespace ddprun {

/// Makes `link` a symbolic link to `directory`, so that a run's snapshots are found beside its
/// script wherever they are (T46). Replaces an existing link in one step; does nothing if both are
/// the same directory. Fails with kIo or kNotFound, also if something other than a link is in its
/// place, which then stays.
Result<void> link_checkpoints(
    const std::filesystem::path& directory, const std::filesystem::path& link = "checkpoints");

}  // namespace ddprun
