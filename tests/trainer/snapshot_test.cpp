#include "trainer/core/snapshot.hpp"

#include "tests/support/training_state.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

using testing::HasSubstr;

/// The files of a snapshot in memory, as read from the disk.
class Files {
 public:
  explicit Files(const SnapshotState& state)
      : manifest_(manifest_of(state, {.claim = 1, .step = state.step})) {
    for (const auto& [name, encoded] : encode_state(state)) {
      const auto head = std::as_bytes(std::span(encoded.head));
      std::vector<std::byte>& bytes = bytes_[name];
      bytes.assign(head.begin(), head.end());
      for (const auto body : encoded.bodies) {
        bytes.insert(bytes.end(), body.begin(), body.end());
      }
    }
  }

  Manifest& manifest() { return manifest_; }
  void lose(const std::string& name) { bytes_.erase(name); }

  Result<SnapshotState> decode() const {
    return decode_state(manifest_, {bytes_.begin(), bytes_.end()});
  }

  std::string refusal() const {
    const auto state = decode();
    return state ? "accepted" : state.error().detail;
  }

 private:
  std::map<std::string, std::vector<std::byte>> bytes_;
  Manifest manifest_;
};

TEST(SnapshotState, ComesBackToTheLastByte) {
  const TrainingState training(13, 4096);
  const Files files(training.state());
  const auto state = files.decode();
  ASSERT_TRUE(state) << state.error().detail;
  EXPECT_TRUE(training.equals(*state));
}

TEST(SnapshotState, KeepsSumsThatJsonCouldNot) {
  SnapshotState training;
  training.ranks.push_back(
      {.rng = {}, .sums = {{"loss", std::numeric_limits<double>::infinity()}, {"norm", -0.0}}});
  const Files files(training);
  const auto state = files.decode();
  ASSERT_TRUE(state) << state.error().detail;
  EXPECT_TRUE(std::isinf(state->ranks.at(0).sums.at("loss")));
  EXPECT_TRUE(std::signbit(state->ranks.at(0).sums.at("norm")));
}

TEST(SnapshotState, WantsEveryFile) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "ranks.safetensors"}) {
    Files files(TrainingState(1, 256).state());
    files.lose(name);
    EXPECT_THAT(files.refusal(), HasSubstr(name));
  }
}

TEST(SnapshotState, WantsTheStateOfEveryRank) {
  Files files(TrainingState(1, 256).state());
  files.manifest().world = 3;
  EXPECT_THAT(files.refusal(), HasSubstr("rank 2 is missing"));
  files.manifest().world = 1'000'000;
  EXPECT_THAT(files.refusal(), HasSubstr("1000000 ranks"));
  files.manifest().world = 1;
  EXPECT_THAT(files.refusal(), HasSubstr("'rank1."));
}

/// An epoch with 48 samples in the manifest, and as many for each rank as given.
std::string refusal_of_samples(const std::vector<double>& counted, const std::string& precision) {
  SnapshotState training;
  training.step = 40;
  training.epoch = 1;
  training.consumed = 48;
  training.batches = 2;
  training.arguments["--amp"] = precision;
  for (const double samples : counted) {
    training.ranks.push_back({.rng = {}, .sums = {{kSamplesOfEpoch, samples}}});
  }
  return Files(training).refusal();
}

TEST(SnapshotState, CountsTheSamplesOfTheEpochAsTheManifestDoes) {
  EXPECT_EQ(refusal_of_samples({24, 24}, "off"), "accepted");
  EXPECT_EQ(refusal_of_samples({48, 0}, "off"), "accepted");  // after another world size
  EXPECT_THAT(
      refusal_of_samples({0, 0}, "off"),
      HasSubstr("'samples_consumed' is 48, but the ranks count 0 samples of that epoch"));
  EXPECT_THAT(refusal_of_samples({24, 16}, "bf16"), HasSubstr("the ranks count 40 samples"));
  EXPECT_THAT(refusal_of_samples({24, std::nan("")}, "off"), HasSubstr("the ranks count nan"));
}

TEST(SnapshotState, LeavesOutTheSamplesOfStepsThatOverflowed) {
  EXPECT_EQ(refusal_of_samples({8, 16}, "fp16"), "accepted");
  EXPECT_THAT(refusal_of_samples({24, 32}, "fp16"), HasSubstr("the ranks count 56 samples"));
  EXPECT_THAT(refusal_of_samples({24, std::nan("")}, "fp16"), HasSubstr("the ranks count nan"));
}

}  // namespace
}  // namespace ddprun
