#include "trainer/snapshot_store.hpp"

#include "base/file.hpp"
#include "tests/support/training_state.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::size_t kBytes = 4096;

/// A directory of snapshots, and rounds that come and go.
class Snapshots : public testing::Test {
 public:
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

 protected:
  Snapshots() { fs::remove_all(directory_); }
  ~Snapshots() override { fs::remove_all(directory_.parent_path()); }

  std::unique_ptr<SnapshotStore> begin_round(std::uint64_t round = 0, std::size_t keep = 2) {
    auto store = SnapshotStore::claim(
        {.directory = directory_, .keep = keep, .run_id = "job", .round = round});
    EXPECT_TRUE(store) << store.error().detail;
    return store ? *std::move(store) : nullptr;
  }

  static SnapshotName save(
      SnapshotStore& store,
      std::int64_t step,
      const std::optional<SnapshotName>& best = std::nullopt) {
    const TrainingState training(step, kBytes);
    SnapshotState state = training.state();
    if (best) state.best = BestSoFar{.value = 50, .epoch = 1, .snapshot = *best};
    const auto name = store.write(state);
    EXPECT_TRUE(name) << name.error().detail;
    return name ? *name : SnapshotName{};
  }

  std::set<std::int64_t> steps() const {
    std::set<std::int64_t> found;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      const auto name = SnapshotName::parse(entry.path().filename().string());
      if (name) found.insert(name->step);
    }
    return found;
  }

  /// The step from which a round would resume: 0 for none, -1 if it fails or finds a wrong one.
  static std::int64_t taken_up(SnapshotStore& store) {
    const auto found = store.newest();
    if (!found) return -1;
    if (found->snapshot == nullptr) return 0;
    const SnapshotState& state = found->snapshot->state();
    return TrainingState(state.step, kBytes).equals(state) ? state.step : -1;
  }

  std::size_t count(std::string_view prefix) const {
    std::size_t found = 0;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      found += entry.path().filename().string().starts_with(prefix) ? 1U : 0U;
    }
    return found;
  }

  /// Changes one byte in the middle of a file.
  static void damage(const fs::path& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(fs::file_size(file) / 2));
    const int byte = stream.peek();
    stream.put(static_cast<char>(byte ^ 1));
  }

  fs::path directory_ =
      fs::temp_directory_path() / ("ddprun_snapshots_" + std::to_string(::getpid())) / "new";
};

TEST_F(Snapshots, AreNoneInANewDirectory) {
  EXPECT_EQ(taken_up(*begin_round()), 0);
}

TEST_F(Snapshots, ComeBackInTheNextRound) {
  const auto name = save(*begin_round(3), 13);
  EXPECT_EQ(name.to_string(), "snapshot-c000001-g000000-r000003-s000000000013");
  EXPECT_EQ(taken_up(*begin_round(4)), 13);
}

TEST_F(Snapshots, OfAJobSubmittedAgainAreNewerThoughItsRoundsBeginAgain) {
  save(*begin_round(5), 13);
  save(*begin_round(1), 7);  // a snapshot was removed, and training went back
  EXPECT_EQ(taken_up(*begin_round(1)), 7);
}

TEST_F(Snapshots, AreKeptAsManyAsAskedFor) {
  const auto store = begin_round(0, 3);
  for (std::int64_t step = 1; step <= 9; ++step) {
    save(*store, step);
  }
  EXPECT_EQ(count("snapshot-"), 3U);
  EXPECT_EQ(count("swept-"), 0U);
  EXPECT_EQ(taken_up(*begin_round()), 9);
}

TEST_F(Snapshots, TheBestStaysBesideTheNewestUntilABetterOneIsSaved) {
  using testing::ElementsAre;
  const auto store = begin_round(0, 2);
  const SnapshotName first = save(*store, 1, store->name_of_step(1));
  EXPECT_EQ(first, store->name_of_step(1));
  for (std::int64_t step = 2; step <= 5; ++step) {
    save(*store, step, first);
  }
  EXPECT_THAT(steps(), ElementsAre(1, 4, 5));
  EXPECT_EQ(load_snapshot(store->path_of(first)).value()->state().best->snapshot, first);
  save(*store, 6, store->name_of_step(6));
  EXPECT_THAT(steps(), ElementsAre(5, 6));
}

TEST_F(Snapshots, TheBestStaysInLaterRounds) {
  const auto older = begin_round(0, 1);
  const SnapshotName best = save(*older, 1, older->name_of_step(1));
  save(*older, 2, best);
  const auto newer = begin_round(1, 1);
  const auto found = newer->newest();
  ASSERT_TRUE(found && found->snapshot);
  ASSERT_EQ(found->snapshot->state().best->snapshot, best);
  save(*newer, 3, best);
  EXPECT_THAT(steps(), testing::ElementsAre(1, 3));
}

TEST_F(Snapshots, AreFoundWithoutAClaimByTheirPathOrTheirDirectory) {
  const auto store = begin_round();
  save(*store, 1);
  const SnapshotName newest = save(*store, 2);
  EXPECT_EQ(find_snapshot(directory_)->snapshot->name(), newest);
  damage(store->path_of(newest) / "model.safetensors");
  const auto sound = find_snapshot(directory_);
  EXPECT_EQ(sound->snapshot->state().step, 1);
  EXPECT_EQ(sound->damaged.size(), 1U);
  EXPECT_EQ(
      find_snapshot(sound->snapshot->name().to_string().insert(0, directory_.string() + "/"))
          ->snapshot->state()
          .step,
      1);
  EXPECT_TRUE(find_snapshot(store->path_of(newest)).error().is(Errc::kCorrupt));
  EXPECT_TRUE(find_snapshot(directory_ / "none").error().is(Errc::kNotFound));
  EXPECT_EQ(find_snapshot(directory_.parent_path())->snapshot, nullptr);
  save(*store, 3);  // the claim is still its own
}

TEST_F(Snapshots, OfOneStepAreSavedOnce) {
  const auto store = begin_round();
  EXPECT_EQ(save(*store, 5), save(*store, 5));
  EXPECT_EQ(count("snapshot-"), 1U);
}

TEST_F(Snapshots, WithOneByteFlippedInAnyFileArePassedOver) {
  for (const char* file :
       {"manifest.json",
        "manifest.json.sha256",
        "model.safetensors",
        "optimizer.safetensors",
        "ranks.safetensors"}) {
    const auto writer = begin_round();
    save(*writer, 1);
    const fs::path newest = writer->path_of(save(*writer, 2));
    damage(newest / file);

    const auto found = begin_round()->newest();
    ASSERT_TRUE(found) << found.error().detail;
    ASSERT_NE(found->snapshot, nullptr);
    EXPECT_EQ(found->snapshot->state().step, 1);
    ASSERT_EQ(found->damaged.size(), 1U);
    EXPECT_THAT(found->damaged[0].detail, HasSubstr(newest.string()));
    EXPECT_THAT(found->damaged[0].detail, HasSubstr("manifest"));
    fs::remove_all(directory_);
  }
}

TEST_F(Snapshots, CutOffAnywhereArePassedOver) {
  const auto writer = begin_round();
  save(*writer, 1);
  const fs::path newest = writer->path_of(save(*writer, 2));
  for (const char* file : {"model.safetensors", "ranks.safetensors", "manifest.json"}) {
    fs::resize_file(newest / file, fs::file_size(newest / file) - 1);
    EXPECT_EQ(taken_up(*begin_round()), 1) << file;
  }
  fs::remove(newest / "manifest.json");
  EXPECT_EQ(taken_up(*begin_round()), 1);
}

TEST_F(Snapshots, DamagedOnesDoNotPushSoundOnesOut) {
  const auto writer = begin_round();
  save(*writer, 1);
  damage(writer->path_of(save(*writer, 2)) / "model.safetensors");
  const auto next = begin_round();
  EXPECT_EQ(taken_up(*next), 1);
  const auto newest = save(*next, 3);
  damage(next->path_of(newest) / "model.safetensors");
  EXPECT_EQ(taken_up(*begin_round()), 1);
}

TEST_F(Snapshots, OfWhichNoneIsSoundEndTheJobRatherThanStartItOver) {
  const auto writer = begin_round();
  damage(writer->path_of(save(*writer, 2)) / "model.safetensors");
  const auto found = begin_round()->newest();
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().is(Errc::kCorrupt));
  EXPECT_THAT(found.error().detail, HasSubstr("model.safetensors"));
  EXPECT_THAT(found.error().detail, HasSubstr("to start over"));
}

TEST_F(Snapshots, WithANameThatIsNotTheirsArePassedOver) {
  const auto writer = begin_round();
  const auto name = save(*writer, 2);
  SnapshotName other = name;
  other.step = 99;
  fs::rename(writer->path_of(name), writer->path_of(other));
  EXPECT_THAT(begin_round()->newest().error().detail, HasSubstr(name.to_string()));
}

TEST_F(Snapshots, R10AnOlderRoundCanSaveNoMore) {
  const auto older = begin_round(1);
  save(*older, 1);
  const auto newer = begin_round(2);
  const auto refused = older->write(TrainingState(2, kBytes).state());
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(Errc::kCancelled));
  EXPECT_THAT(refused.error().detail, HasSubstr("run_id=job term=0 round=2"));
  EXPECT_EQ(taken_up(*newer), 1);
  EXPECT_EQ(count("partial-"), 0U);
}

TEST_F(Snapshots, R10WhatAKilledWriterLeftIsSweptByTheNextRound) {
  const auto older = begin_round();
  const SnapshotName name = {.claim = older->claim_number(), .step = 9};
  fs::create_directory(directory_ / partial_name(name));
  fs::create_directory(directory_ / swept_name(name.claim, "snapshot"));
  begin_round();
  EXPECT_EQ(count("partial-"), 0U);
  EXPECT_EQ(count("swept-"), 0U);
  EXPECT_EQ(count("claim-"), 1U);
}

TEST_F(Snapshots, R10WhatANewerRoundIsWritingIsLeftAlone) {
  begin_round();
  const SnapshotName name = {.claim = 100, .step = 9};
  fs::create_directories(directory_ / partial_name(name));
  const auto later = begin_round();
  EXPECT_EQ(later->claim_number(), 101U);
  EXPECT_EQ(count("partial-"), 0U);

  fs::create_directories(directory_ / partial_name({.claim = 102, .step = 9}));
  EXPECT_FALSE(later->write(TrainingState(2, kBytes).state()));
  EXPECT_EQ(count("partial-"), 1U);
}

TEST_F(Snapshots, InAPlaceThatIsAFileAreRefusedWithTheRemedy) {
  fs::create_directories(directory_.parent_path());
  ASSERT_TRUE(replace_file(directory_, "a file"));
  const auto store = SnapshotStore::claim({.directory = directory_, .run_id = "job"});
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().detail, HasSubstr(directory_.string()));
  EXPECT_THAT(store.error().detail, HasSubstr("give another directory"));
}

TEST_F(Snapshots, InAnUnwritablePlaceAreRefusedWithTheRemedy) {
  const auto store = SnapshotStore::claim({.directory = "/proc/self/snapshots", .run_id = "job"});
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().detail, HasSubstr("/proc/self/snapshots"));
}

TEST_F(Snapshots, AreLookedAtWithoutAClaim) {
  const auto none = peek_newest(directory_);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_FALSE(fs::exists(directory_));

  const auto owner = begin_round();
  save(*owner, 1);
  const auto newest = save(*owner, 2);
  const auto seen = peek_newest(directory_);
  ASSERT_TRUE(seen && *seen);
  EXPECT_EQ((*seen)->name, newest);
  EXPECT_TRUE(owner->write(TrainingState(3, kBytes).state())) << "the owner continues";

  damage(owner->path_of({.claim = newest.claim, .step = 3}) / "manifest.json");
  const auto sound = peek_newest(directory_);
  ASSERT_TRUE(sound && *sound);
  EXPECT_EQ((*sound)->name, newest);
}

TEST_F(Snapshots, LoadByPathForTheOtherRanks) {
  const auto writer = begin_round();
  const auto name = save(*writer, 4);
  const auto loaded = load_snapshot(writer->path_of(name));
  ASSERT_TRUE(loaded) << loaded.error().detail;
  EXPECT_EQ((*loaded)->name(), name);
  EXPECT_TRUE(TrainingState(4, kBytes).equals((*loaded)->state()));
  EXPECT_FALSE(load_snapshot(directory_ / "none"));
}

}  // namespace
}  // namespace ddprun
