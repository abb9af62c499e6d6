// What several ranks do together beyond the mean of their gradients.

#include "trainer/ddp.hpp"

#include "tests/parity/ranks.hpp"
#include "trainer/grad_scaler.hpp"
#include "trainer/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {
namespace {

/// One weight of 1 for each of so many inputs, and their weighted sum.
class Sum final : public Model {
 public:
  explicit Sum(std::int64_t inputs) {
    weight_ = register_parameter("weight", torch::ones({inputs}));
    seen_ = register_buffer("seen", torch::zeros({1}));
  }

  torch::Tensor forward(torch::Tensor x) override {
    if (is_training()) seen_ += static_cast<double>(x.size(0));
    return (x * weight_).sum(1);
  }

  torch::Tensor weight() const { return weight_.detach().clone(); }
  float seen() const { return seen_.item<float>(); }

 private:
  torch::Tensor weight_;
  torch::Tensor seen_;
};

torch::Tensor row(float value) {
  return torch::full({1, 2}, value);
}

TEST(GradScalerOfRanks, SkipsOnAllWhereTheGradientsOfOneAreInfinite) {
  constexpr int kWorld = 3;
  std::array<torch::Tensor, kWorld> weights;
  std::array<std::vector<bool>, kWorld> stepped;
  std::array<double, kWorld> scales{};
  run_ranks(kWorld, [&](int rank, const ProcessGroup& group) {
    const auto at = static_cast<std::size_t>(rank);
    const auto model = std::make_shared<Sum>(2);
    Ddp ddp(model, group);
    const auto optimizer = make_optimizer({.learning_rate = 1}, model->named_parameters());
    GradScaler scaler({.init_scale = 4});
    for (const bool is_spoiled : {false, true, false}) {
      ddp.zero_grad();
      const bool is_mine = is_spoiled && rank == 1;
      const float value = is_mine ? std::numeric_limits<float>::infinity() : 1.0F;
      scaler.scale(ddp.forward(row(value)).sum()).backward();
      stepped.at(at).push_back(scaler.step(*optimizer));
      scaler.update();
    }
    weights.at(at) = model->weight();
    scales.at(at) = scaler.current_scale();
  });
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_THAT(stepped.at(rank), testing::ElementsAre(true, false, true)) << "rank " << rank;
    EXPECT_EQ(scales.at(rank), 2) << "rank " << rank;
    // Two steps of gradient 1 from 1.
    EXPECT_TRUE(torch::equal(weights.at(rank), torch::full({2}, -1.0F))) << "rank " << rank;
  }
}

/// What is left of a rank when all ranks, each with so many batches of its own, are done.
struct Joined {
  torch::Tensor weight;
  float seen = 0;
  int steps = 0;
};

std::vector<Joined> train_unevenly(const std::vector<int>& batches, const DdpOptions& options) {
  std::vector<Joined> ranks(batches.size());
  run_ranks(static_cast<int>(batches.size()), [&](int rank, const ProcessGroup& group) {
    const auto at = static_cast<std::size_t>(rank);
    const auto model = std::make_shared<Sum>(2);
    Ddp ddp(model, group, options);
    const auto optimizer = make_optimizer({.learning_rate = 1}, model->named_parameters());
    int left = batches[at];
    while (ddp.join(left > 0)) {
      --left;
      ++ranks[at].steps;
      ddp.zero_grad();
      ddp.forward(row(static_cast<float>(rank + 1))).sum().backward();
      optimizer->step();
    }
    ranks[at].weight = model->weight();
    ranks[at].seen = model->seen();
  });
  return ranks;
}

/// Gradients of ranks 0 and 1 are 1 and 2, divided by the world also where one has run out.
void expect_weights_of_two(const DdpOptions& options) {
  const auto ranks = train_unevenly({1, 3}, options);
  EXPECT_EQ(ranks[0].steps, 1);
  EXPECT_EQ(ranks[1].steps, 3);
  const torch::Tensor expected = torch::full({2}, 1 - 1.5F - 1.0F - 1.0F);
  for (const Joined& rank : ranks) {
    EXPECT_TRUE(torch::equal(rank.weight, expected)) << rank.weight;
  }
  EXPECT_EQ(ranks[0].seen, ranks[1].seen);
}

TEST(Join, GoesOnUntilTheLastRankHasNoBatchAndLeavesAllWithItsWeights) {
  expect_weights_of_two({});
}

TEST(Join, FollowsCompressedGradientsAndUnusedParametersToo) {
  expect_weights_of_two({.compression = Compression::kBf16});
  expect_weights_of_two({.finds_unused = true});
}

TEST(Join, OfRanksWithoutAnyBatchEndsAtOnce) {
  for (const Joined& rank : train_unevenly({0, 0, 0}, {})) {
    EXPECT_EQ(rank.steps, 0);
    EXPECT_TRUE(torch::equal(rank.weight, torch::ones({2})));
  }
}

TEST(Ddp, NamesTheParameterThatHasAnotherShapeOnAnotherRank) {
  std::array<std::string, 2> said;
  run_ranks(2, [&](int rank, const ProcessGroup& group) {
    try {
      const Ddp ddp(std::make_shared<Sum>(2 + rank), group);
    } catch (const std::exception& error) {  // or what the end of the other does to this one
      said.at(static_cast<std::size_t>(rank)) = error.what();
    }
  });
  EXPECT_THAT(said[0] + said[1], testing::HasSubstr("params[0] in this process with sizes"));
}

}  // namespace
}  // namespace ddprun
