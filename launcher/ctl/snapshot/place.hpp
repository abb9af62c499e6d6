#pragma once

#include "base/error.hpp"
#include "trainer/snapshot_store.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// Whether `path` is a snapshot itself and not a directory of snapshots.
bool is_snapshot(const std::filesystem::path& path);

/// The snapshots in `directory`, newest first. Fails with kIo or kNotFound.
Result<std::vector<std::filesystem::path>> snapshots_in(const std::filesystem::path& directory);

/// `path`, or the newest snapshot in it. Fails with kNotFound if there is none.
Result<std::filesystem::path> snapshot_at(const std::filesystem::path& path);

/// The best snapshot in `directory`, by the newest intact manifest there. Fails with kNotFound if
/// that manifest names none, or the snapshot is gone.
Result<std::filesystem::path> best_snapshot_in(const std::filesystem::path& directory);

}  // namespace ddprun
