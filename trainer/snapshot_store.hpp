#pragma once

// Snapshots on disk: one directory of snapshots, which only rank 0 of each round writes.
//
// The newest snapshot for which write() has returned stays loadable whenever the machine, the
// process or the power fails: it is written aside, synced, renamed, and its parent synced.
//
// R10. claim() numbers the round in the directory, then moves everything unfinished of older rounds
// away, and only then lists the entries. A writer checks for a larger claim right before it
// renames. So an older round that still runs has renamed before the list is made, or finds nothing
// to rename, or sees the claim and gives up; its later renames cannot succeed.

#include "base/error.hpp"
#include "trainer/core/manifest.hpp"
#include "trainer/core/snapshot.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A snapshot in memory. `state` points to the other members.
class LoadedSnapshot {
 public:
  LoadedSnapshot(SnapshotName name, SnapshotState state, std::vector<std::vector<std::byte>> files)
      : name_(name), state_(std::move(state)), files_(std::move(files)) {}
  ~LoadedSnapshot() = default;
  LoadedSnapshot(const LoadedSnapshot&) = delete;
  LoadedSnapshot& operator=(const LoadedSnapshot&) = delete;

  const SnapshotName& name() const { return name_; }
  const SnapshotState& state() const { return state_; }

 private:
  SnapshotName name_;
  SnapshotState state_;
  std::vector<std::vector<std::byte>> files_;
};

/// Reads the snapshot in the directory `path` and checks every byte of it. Fails with kCorrupt,
/// naming the file and what is wrong, or with kNotFound or kIo.
Result<std::unique_ptr<LoadedSnapshot>> load_snapshot(const std::filesystem::path& path);

/// The manifest of the snapshot in the directory `path`. Checks its own checksum and its name, but
/// not the listed files. Fails as load_snapshot() does.
Result<Manifest> read_manifest(const std::filesystem::path& path);

/// Reads a file of the snapshot in `directory`, and checks its size and SHA-256. Fails likewise.
Result<std::vector<std::byte>> read_listed(
    const std::filesystem::path& directory, const ManifestFile& file);

/// The manifest of the newest snapshot in `directory`, without claiming anything; none if there is
/// no intact manifest. Another round may save or remove snapshots meanwhile, so this is only for a
/// preliminary check. Fails with kIo if the directory cannot be read.
Result<std::optional<Manifest>> peek_newest(const std::filesystem::path& directory);

struct SnapshotStoreOptions {
  std::filesystem::path directory;  // created if it does not exist
  std::size_t keep = 2;             // this many intact snapshots stay, and the best; >= 1
  // Initialised here too: otherwise g++ warns if designated initialisers leave it out.
  std::string run_id = {};  // the job, for messages NOLINT(readability-redundant-member-init)
  std::uint64_t term = 0;   // with `round`, the owner of written data
  std::uint64_t round = 0;
};

/// The snapshots of one directory, owned by one round. Only rank 0 has one. Not for use by two
/// threads at once. All its calls block on the disk.
class SnapshotStore {
 public:
  /// Takes over the directory. Call it after this round's process group has formed, so that no
  /// process of an older round gets this far. Fails with kIo or kNotFound if the directory cannot
  /// be created or written, with kCancelled if another round claims it at the same time and wins.
  static Result<std::unique_ptr<SnapshotStore>> claim(SnapshotStoreOptions options);

  /// The snapshot to resume from, and those that were skipped.
  struct Found {
    std::unique_ptr<LoadedSnapshot> snapshot;  // null: there is none, training begins at step 0
    std::vector<Error> damaged;                // newer, but damaged: each names its path and defect
  };

  /// The newest complete snapshot of earlier rounds. Rank 0 sends its path_of() to the others,
  /// which use load_snapshot(). Fails with kCorrupt if there are snapshots but none is intact: a
  /// person must decide to start over.
  Result<Found> newest();

  /// Saves `state`. When this returns a name, the snapshot is durable; only then are the oldest
  /// beyond `keep` removed, except the one that `state.best` names. So a new best, which names
  /// itself, exists before the old one is removed. A step that this round has already saved is not
  /// saved again. Fails with kIo if the disk is full or refuses, and with kCancelled if a newer
  /// round has claimed the directory; nothing of a failed attempt is used later.
  Result<SnapshotName> write(const SnapshotState& state);

  std::filesystem::path path_of(const SnapshotName& name) const;
  std::uint64_t claim_number() const { return claim_; }

  /// The name that write() gives to the snapshot of this step.
  SnapshotName name_of_step(std::int64_t step) const;

 private:
  explicit SnapshotStore(SnapshotStoreOptions options) : options_(std::move(options)) {}

  Result<void> take_claim();
  Result<void> sweep() const;
  Result<void> check_claim() const;
  Result<void> write_aside(const SnapshotState& state, const SnapshotName& name) const;
  Result<void> publish(const SnapshotName& name) const;
  void prune(const std::optional<BestSoFar>& best) const;
  std::filesystem::path path_aside(const SnapshotName& name) const;

  SnapshotStoreOptions options_;
  std::uint64_t claim_ = 0;
  std::vector<SnapshotName> damaged_;
};

/// The snapshot at `path`, or the newest intact one in the directory `path`; claims nothing. Fails
/// with kNotFound if the path does not exist, and as SnapshotStore::newest().
Result<SnapshotStore::Found> find_snapshot(const std::filesystem::path& path);

}  // namespace ddprun
