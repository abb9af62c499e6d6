#pragma once

// Writes snapshots while training continues. A step only reads the weights until its update, so
// they can be copied during its forward and backward passes: training waits for the copy, if it is
// not done by then, but never for the disk.

#include "base/error.hpp"
#include "trainer/core/snapshot.hpp"
#include "trainer/snapshot_store.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ddprun {

/// One thread that copies and writes, one snapshot at a time. Used by the thread that trains. Its
/// buffers are as large as a snapshot, and are reused for the next one.
class SnapshotSaver {
 public:
  /// Takes over `store`.
  explicit SnapshotSaver(std::unique_ptr<SnapshotStore> store);
  /// Waits until everything begun is written.
  ~SnapshotSaver();
  SnapshotSaver(const SnapshotSaver&) = delete;
  SnapshotSaver& operator=(const SnapshotSaver&) = delete;

  /// Whether begin() would have to wait for the disk.
  bool is_busy() const;

  /// Begins to save `state`, after the previous snapshot is written. REQUIRES: the data of its
  /// views does not change before wait_until_copied() has returned.
  void begin(SnapshotState state);

  /// Waits until the data passed to begin() may change again.
  void wait_until_copied();

  /// Waits until the snapshot passed to begin() is written. Fails with the last failure of
  /// SnapshotStore::write() since the previous call.
  Result<void> finish();

  /// The failure of the last write, if it has ended and was not reported yet; never waits.
  std::optional<Error> take_failure();

  /// The newest step on disk; -1: none.
  std::int64_t saved_step() const;

 private:
  enum class Phase : std::uint8_t { kIdle, kCopying, kWriting, kEnding };

  void run();
  void copy();

  std::unique_ptr<SnapshotStore> store_;
  SnapshotState state_;                         // used by the thread unless it is idle
  std::vector<std::vector<std::byte>> copies_;  // the thread's: the data of the views in state_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kIdle;
  std::optional<Error> failure_;
  std::int64_t saved_step_ = -1;
  std::jthread thread_;  // last: the members that it uses must outlive it
};

}  // namespace ddprun
