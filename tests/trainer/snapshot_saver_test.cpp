#include "trainer/snapshot_saver.hpp"

#include "tests/support/training_state.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = std::size_t{1} << 20U;

class Saver : public testing::Test {
 public:
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

 protected:
  Saver() = default;
  ~Saver() override { fs::remove_all(directory_); }

  std::unique_ptr<SnapshotStore> claim() {
    auto store = SnapshotStore::claim({.directory = directory_, .keep = 2, .run_id = "job"});
    EXPECT_TRUE(store) << store.error().detail;
    return store ? *std::move(store) : nullptr;
  }

  /// The step of the newest snapshot, if it is correct to the last byte; else -1.
  std::int64_t newest_whole() {
    const auto found = claim()->newest();
    if (!found || found->snapshot == nullptr) return -1;
    const SnapshotState& state = found->snapshot->state();
    return TrainingState(state.step, kBytes).equals(state) ? state.step : -1;
  }

  fs::path directory_ =
      fs::temp_directory_path() / ("ddprun_saver_test." + std::to_string(::getpid()));
};

/// What the owner of the weights does to them as soon as it may.
void overwrite(const SnapshotState& state) {
  for (const TensorView& view : state.model) {
    std::fill_n(const_cast<std::byte*>(view.bytes.data()), view.bytes.size(), std::byte{0xee});
  }
}

TEST_F(Saver, KeepsWhatTheWeightsWereWhenItBegan) {
  SnapshotSaver saver(claim());
  for (std::int64_t step = 1; step <= 20; ++step) {
    const TrainingState training(step, kBytes);
    saver.begin(training.state());
    saver.wait_until_copied();
    overwrite(training.state());
  }
  ASSERT_TRUE(saver.finish());
  EXPECT_EQ(saver.saved_step(), 20);
  EXPECT_EQ(newest_whole(), 20);
}

TEST_F(Saver, WritesToTheEndBeforeItGoes) {
  {
    const TrainingState training(7, kBytes);
    SnapshotSaver saver(claim());
    saver.begin(training.state());
  }
  EXPECT_EQ(newest_whole(), 7);
}

TEST_F(Saver, TellsOnceThatItCouldNotWrite) {
  const TrainingState training(1, kBytes);
  SnapshotSaver saver(claim());
  const auto newer = claim();
  saver.begin(training.state());
  const auto done = saver.finish();
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().is(Errc::kCancelled));
  EXPECT_EQ(saver.saved_step(), -1);
  EXPECT_TRUE(saver.finish());
}

}  // namespace
}  // namespace ddprun
