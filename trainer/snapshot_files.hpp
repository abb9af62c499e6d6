#pragma once

// The file operations of a SnapshotStore, each of them durable. A failure names the path and, for a
// full or unwritable disk, the remedy.

#include "base/error.hpp"
#include "trainer/core/snapshot_name.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Creates `path` and its missing parents, durably. Fails with kIo or kNotFound.
Result<void> make_directories(const std::filesystem::path& path);

/// Creates a directory that must not exist yet; durable only after sync_entries() of its parent.
Result<void> make_new_directory(const std::filesystem::path& path);

/// The entries of `directory`, by name.
Result<SnapshotEntries> list_snapshots(const std::filesystem::path& directory);

/// Writes and syncs a file that must not exist yet; its name is durable only after sync_entries().
/// Yields the SHA-256 of the content.
Result<std::string> write_new_file(
    const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces);

/// The same for a short text, with its name durable, too. False if the name is taken.
Result<bool> create_claim(const std::filesystem::path& path, std::string_view text);

/// A file of exactly `size` bytes. Fails with kCorrupt if it is longer or shorter, before it
/// allocates anything.
Result<std::vector<std::byte>> read_exactly(const std::filesystem::path& path, std::size_t size);

/// Makes created, renamed and removed entries of `directory` durable.
Result<void> sync_entries(const std::filesystem::path& directory);

/// Renames. False if `from` does not exist.
Result<bool> move_entry(const std::filesystem::path& from, const std::filesystem::path& to);

/// Deletes a tree as far as possible; a later round removes the rest.
void remove_tree(const std::filesystem::path& path);

}  // namespace ddprun
