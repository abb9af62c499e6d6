#pragma once

// Snapshots on disk: one directory of snapshots, of which rank 0 of each round is the only writer.
//
// Whatever moment the machine, the process or the power ends at, the newest snapshot that write()
// has returned stays loadable: it is written aside, synced, renamed, and its parent synced.
//
// R10. claim() numbers the round in the directory, then moves everything unfinished of older rounds
// away, and only then lists what there is. A writer looks for a larger claim right before it
// renames. So an older round that is still about either has renamed before the list is made, or
// finds nothing to rename, or sees the claim and gives up; its later renames cannot succeed.

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

/// A snapshot in memory. `state` points into what else is in here.
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

/// What the manifest of the snapshot in the directory `path` says. Its own checksum and its name
/// are checked, the files that it lists are not. Fails as load_snapshot() does.
Result<Manifest> read_manifest(const std::filesystem::path& path);

/// Reads a file of the snapshot in `directory`, and compares its size and SHA-256. Fails likewise.
Result<std::vector<std::byte>> read_listed(
    const std::filesystem::path& directory, const ManifestFile& file);

/// What the manifest of the newest snapshot in `directory` says, without claiming anything; none
/// when there is no sound manifest. Another round may save or remove snapshots meanwhile, so this
/// is for a first look only. Fails with kIo when the directory cannot be read.
Result<std::optional<Manifest>> peek_newest(const std::filesystem::path& directory);

struct SnapshotStoreOptions {
  std::filesystem::path directory;  // made when it does not exist
  std::size_t keep = 2;             // this many sound snapshots stay, and the best; >= 1
  // Initialised here too, or g++ warns where designated initialisers leave it out.
  std::string run_id = {};  // the job, for messages NOLINT(readability-redundant-member-init)
  std::uint64_t term = 0;   // with `round`, the owner of what is written
  std::uint64_t round = 0;
};

/// The snapshots of one directory, in the hands of one round. Rank 0 alone has one. Not for use by
/// two threads at once. All its calls block on the disk.
class SnapshotStore {
 public:
  /// Takes the directory over. Call it when this round's process group stands, so that no process
  /// of an older round gets this far. Fails with kIo or kNotFound when the directory cannot be made
  /// or written, with kCancelled when another round claims it at the same time and wins.
  static Result<std::unique_ptr<SnapshotStore>> claim(SnapshotStoreOptions options);

  /// What the round goes on from, and what it had to pass over for that.
  struct Found {
    std::unique_ptr<LoadedSnapshot> snapshot;  // null: there is none, training begins at step 0
    std::vector<Error> damaged;                // newer, but unsound: each names its path and defect
  };

  /// The newest complete snapshot of the rounds before. The others learn from rank 0 which it is,
  /// by path_of(), and use load_snapshot(). Fails with kCorrupt when there are snapshots and none
  /// is sound: to start over is for a person to decide.
  Result<Found> newest();

  /// Saves `state`. When this returns a name the snapshot is durable; only then are the oldest
  /// beyond `keep` removed, all but the one that `state.best` names. So a new best, which names
  /// itself, is there before the old one goes. A step that this round has saved already is not
  /// saved again. Fails with kIo when the disk is full or refuses, and with kCancelled when a newer
  /// round has claimed the directory; nothing of the attempt is taken up later.
  Result<SnapshotName> write(const SnapshotState& state);

  std::filesystem::path path_of(const SnapshotName& name) const;
  std::uint64_t claim_number() const { return claim_; }

  /// What write() calls the snapshot of this step.
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

/// The snapshot that `path` is, or the newest sound one in the directory `path`; claims nothing.
/// Fails with kNotFound when there is no such path, and as SnapshotStore::newest().
Result<SnapshotStore::Found> find_snapshot(const std::filesystem::path& path);

}  // namespace ddprun
