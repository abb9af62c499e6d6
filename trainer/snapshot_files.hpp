#pragma once

// What a SnapshotStore does to files, one durable step at a time. A failure names the path and, for
// a full or unwritable disk, the remedy.

#include "base/error.hpp"
#include "trainer/core/snapshot_name.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Makes `path` and what is missing above it, durably. Fails with kIo or kNotFound.
Result<void> make_directories(const std::filesystem::path& path);

/// Makes a directory that does not exist yet; durable only after sync_entries() above it.
Result<void> make_new_directory(const std::filesystem::path& path);

/// What lies in `directory`, by name.
Result<SnapshotEntries> list_snapshots(const std::filesystem::path& directory);

/// Writes a file that does not exist yet, synced; its name is durable only after sync_entries().
/// Returns the SHA-256 of what it wrote.
Result<std::string> write_new_file(
    const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces);

/// The same for a short text, with its name durable, too. False when the name is taken.
Result<bool> create_claim(const std::filesystem::path& path, std::string_view text);

/// A file of exactly `size` bytes. Fails with kCorrupt when it is longer or shorter, before it
/// allocates anything.
Result<std::vector<std::byte>> read_exactly(const std::filesystem::path& path, std::size_t size);

/// Makes what was created, renamed and removed in `directory` durable.
Result<void> sync_entries(const std::filesystem::path& directory);

/// Renames. False when `from` does not exist.
Result<bool> move_entry(const std::filesystem::path& from, const std::filesystem::path& to);

/// Deletes a tree as far as it can; what stays is swept by a later round.
void remove_tree(const std::filesystem::path& path);

}  // namespace ddprun
