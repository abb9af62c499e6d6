#include "trainer/snapshot_saver.hpp"

#include <cstring>
#include <utility>

namespace ddprun {

SnapshotSaver::SnapshotSaver(std::unique_ptr<SnapshotStore> store)
    : store_(std::move(store)), thread_([this] { run(); }) {}

SnapshotSaver::~SnapshotSaver() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ == Phase::kIdle; });
  phase_ = Phase::kEnding;
  changed_.notify_all();
}

bool SnapshotSaver::is_busy() const {
  const std::scoped_lock lock(mutex_);
  return phase_ != Phase::kIdle;
}

void SnapshotSaver::begin(SnapshotState state) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ == Phase::kIdle; });
  state_ = std::move(state);
  phase_ = Phase::kCopying;
  changed_.notify_all();
}

void SnapshotSaver::wait_until_copied() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ != Phase::kCopying; });
}

Result<void> SnapshotSaver::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ == Phase::kIdle; });
  const std::optional<Error> failed = std::exchange(failure_, std::nullopt);
  if (failed) return *failed;
  return {};
}

std::optional<Error> SnapshotSaver::take_failure() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(failure_, std::nullopt);
}

std::int64_t SnapshotSaver::saved_step() const {
  const std::scoped_lock lock(mutex_);
  return saved_step_;
}

void SnapshotSaver::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return phase_ == Phase::kCopying || phase_ == Phase::kEnding; });
    if (phase_ == Phase::kEnding) return;
    lock.unlock();
    copy();
    lock.lock();
    phase_ = Phase::kWriting;
    changed_.notify_all();
    lock.unlock();
    const auto name = store_->write(state_);
    lock.lock();
    if (name) {
      saved_step_ = state_.step;
    } else {
      failure_ = name.error();
    }
    phase_ = Phase::kIdle;
    changed_.notify_all();
  }
}

/// Copies the data of the views in state_ into copies_.
void SnapshotSaver::copy() {
  std::size_t next = 0;
  for (std::vector<TensorView>* const views : {&state_.model, &state_.optimizer}) {
    for (TensorView& view : *views) {
      if (next == copies_.size()) copies_.emplace_back();
      std::vector<std::byte>& kept = copies_[next++];
      kept.resize(view.bytes.size());
      if (!kept.empty()) std::memcpy(kept.data(), view.bytes.data(), kept.size());
      view.bytes = kept;
    }
  }
}

}  // namespace ddprun
