#pragma once

// Snapshots written beside the training. A step only reads the weights until its update, so they
// can be copied while its forward and backward passes run: training waits for the copy, if it is
// not done by then, and never for the disk.

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

/// One thread that copies and writes, one snapshot at a time. Used by the thread that trains. What
/// it keeps is as large as a snapshot, and is used again for the next.
class SnapshotSaver {
 public:
  /// Takes over all use of `store`.
  explicit SnapshotSaver(std::unique_ptr<SnapshotStore> store);
  /// Waits until what has begun is written.
  ~SnapshotSaver();
  SnapshotSaver(const SnapshotSaver&) = delete;
  SnapshotSaver& operator=(const SnapshotSaver&) = delete;

  /// Whether begin() would have to wait for the disk.
  bool is_busy() const;

  /// Begins to save `state`, once the snapshot before it is written. REQUIRES: what its views point
  /// to stays as it is until wait_until_copied() has returned.
  void begin(SnapshotState state);

  /// Until what begin() was given may change again.
  void wait_until_copied();

  /// Until what begin() was given is written. Fails as the last SnapshotStore::write() that failed
  /// since the call before.
  Result<void> finish();

  /// The failure of the last write, if it has ended and was not told yet; never waits.
  std::optional<Error> take_failure();

  /// The newest step on disk; -1: none.
  std::int64_t saved_step() const;

 private:
  enum class Phase : std::uint8_t { kIdle, kCopying, kWriting, kEnding };

  void run();
  void copy();

  std::unique_ptr<SnapshotStore> store_;
  SnapshotState state_;                         // the thread's, while it is not idle
  std::vector<std::vector<std::byte>> copies_;  // the thread's: what the views of state_ point to
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kIdle;
  std::optional<Error> failure_;
  std::int64_t saved_step_ = -1;
  std::jthread thread_;  // last: what it uses is there before it and behind it
};

}  // namespace ddprun
