// What a snapshot restores on all ranks of a model that is not trained as a whole.

#include "trainer/snapshots.hpp"

#include "tests/parity/ranks.hpp"
#include "trainer/ddp.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr int kWorld = 2;
constexpr std::int64_t kInputs = 3;

/// Three layers side by side: one that is trained, one that no output needs before it is switched
/// on, and one that is frozen.
class PartlyTrained final : public Model {
 public:
  PartlyTrained() {
    trained_ = register_parameter("trained", torch::ones({kInputs}));
    late_ = register_parameter("late", torch::full({kInputs}, 2.0F));
    frozen_ = register_parameter("frozen", torch::full({kInputs}, 3.0F), /*requires_grad=*/false);
  }

  torch::Tensor forward(torch::Tensor x) override {
    torch::Tensor sum = (x * trained_).pow(2).sum(1) + (x * frozen_).sum(1);
    return uses_late_ ? sum + (x * late_).pow(2).sum(1) : sum;
  }

  void use_late() { uses_late_ = true; }

 private:
  torch::Tensor trained_;
  torch::Tensor late_;
  torch::Tensor frozen_;
  bool uses_late_ = false;
};

WorkerPlace place_of(int rank) {
  WorkerPlace place;
  place.rank = rank;
  place.world = kWorld;
  return place;
}

/// One rank from its start, or its snapshot, to step `last`; `late` is used from step `late_from`.
class Rank {
 public:
  Rank(int rank, const ProcessGroup& group, const TrainOptions& options)
      : place_(place_of(rank)),
        model_(std::make_shared<PartlyTrained>()),
        ddp_(model_, group, {.finds_unused = true}),
        optimizer_(make_optimizer(options.optimizer, model_->named_parameters())),
        snapshots_(options, place_, group, {}) {}

  /// Returns the weights' checksum.
  std::string train_to(std::int64_t last, std::int64_t late_from) {
    const auto resumed = snapshots_.resume({.model = *model_, .optimizer = *optimizer_});
    EXPECT_TRUE(resumed) << resumed.error().detail;
    std::int64_t step = resumed && *resumed ? (*resumed)->progress.step : 0;
    while (++step <= last) {
      if (step >= late_from) model_->use_late();
      ddp_.zero_grad();
      const auto value = static_cast<float>(step + place_.rank);
      ddp_.forward(torch::full({1, kInputs}, value)).sum().backward();
      optimizer_->step();
    }
    TrainPosition position;
    position.progress.step = last;
    EXPECT_TRUE(snapshots_.save(position, {.model = *model_, .optimizer = *optimizer_}));
    EXPECT_TRUE(snapshots_.finish());
    return weights_sha256(*model_);
  }

 private:
  WorkerPlace place_;
  std::shared_ptr<PartlyTrained> model_;
  Ddp ddp_;
  std::unique_ptr<Optimizer> optimizer_;
  Snapshots snapshots_;
};

class SnapshotsOfRanks : public testing::Test {
 public:
  SnapshotsOfRanks(const SnapshotsOfRanks&) = delete;
  SnapshotsOfRanks& operator=(const SnapshotsOfRanks&) = delete;

 protected:
  SnapshotsOfRanks() { std::filesystem::create_directory(directory_); }
  ~SnapshotsOfRanks() override { std::filesystem::remove_all(directory_); }

  /// The weights of all ranks after six steps, of which the first `saved_at` are another run's.
  std::array<std::string, kWorld> weights(
      OptimizerKind kind, std::int64_t saved_at, std::int64_t late_from) {
    TrainOptions options;
    options.optimizer = default_options(kind);
    options.optimizer.learning_rate = 0.01;
    if (kind == OptimizerKind::kSgd) options.optimizer.momentum = 0.9;
    options.snapshots.directory =
        directory_ / (std::to_string(saved_at) + "-" + std::to_string(late_from) + name_of(kind));
    std::array<std::string, kWorld> sums;
    for (const std::int64_t last : {saved_at, std::int64_t{6}}) {
      run_ranks(kWorld, [&](int rank, const ProcessGroup& group) {
        sums.at(static_cast<std::size_t>(rank)) =
            Rank(rank, group, options).train_to(last, late_from);
      });
    }
    return sums;
  }

 private:
  std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("ddprun_ranks." + std::to_string(::getpid()));
};

TEST_F(SnapshotsOfRanks, AParameterThatNeverHadAGradientResumes) {
  for (const OptimizerKind kind : kOptimizerKinds) {
    for (const std::int64_t late_from : {std::int64_t{100}, std::int64_t{5}}) {
      SCOPED_TRACE(std::string(name_of(kind)) + ", used from step " + std::to_string(late_from));
      const auto undisturbed = weights(kind, 0, late_from);
      EXPECT_EQ(undisturbed[0], undisturbed[1]);
      EXPECT_EQ(weights(kind, 3, late_from), undisturbed);
    }
  }
}

}  // namespace
}  // namespace ddprun
