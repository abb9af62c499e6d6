#pragma once

#include "base/error.hpp"

#include <filesystem>

namespace ddprun {

/// Makes `link` a symbolic link to `directory`, so that a run's snapshots are found beside its
/// script wherever they lie (T46). A link that is there is replaced in one step; nothing is done
/// where both are the same directory. Fails with kIo or kNotFound, also where something else than a
/// link stands in its place: that stays.
Result<void> link_checkpoints(
    const std::filesystem::path& directory, const std::filesystem::path& link = "checkpoints");

}  // namespace ddprun
