// What several ranks do together beyond the mean of their gradients.

#include "trainer/ddp.hpp"

#include "tests/parity/ranks.hpp"
#include "trainer/grad_scaler.hpp"
#include "trainer/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {
namespace {

/// One weight for each of so many inputs, and their weighted sum.
class Sum final : public Model {
 public:
  explicit Sum(std::int64_t inputs, float weight = 1) {
    weight_ = register_parameter("weight", torch::full({inputs}, weight));
    seen_ = register_buffer("seen", torch::full({1}, weight - 1));
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

/// Two weights, of which a pass uses one.
class OneOfTwo final : public Model {
 public:
  OneOfTwo() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = register_parameter("weight" + std::to_string(i), torch::ones({2}));
    }
  }

  torch::Tensor forward(torch::Tensor x) override { return (x * weights_.at(used_)).sum(1); }

  void use(std::size_t which) { used_ = which; }
  bool has_gradient(std::size_t which) const { return weights_.at(which).grad().defined(); }

 private:
  std::array<torch::Tensor, 2> weights_;
  std::size_t used_ = 0;
};

TEST(UnusedParameters, MayBeOthersInEachStep) {
  run_ranks(2, [](int /*rank*/, const ProcessGroup& group) {
    const auto model = std::make_shared<OneOfTwo>();
    Ddp ddp(model, group, {.finds_unused = true});
    for (const std::size_t used : {0U, 1U, 0U}) {
      model->use(used);
      ddp.zero_grad();
      ddp.forward(row(1)).sum().backward();
      EXPECT_TRUE(model->has_gradient(used));
      EXPECT_FALSE(model->has_gradient(1 - used));
    }
  });
}

/// What is left of a rank when all ranks have finished, each with so many batches.
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

/// Gradients of ranks 0 and 1 are 1 and 2, divided by the world size even if one rank has run out.
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

TEST(Join, ContinuesUntilTheLastRankHasNoBatchAndLeavesAllWithItsWeights) {
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
    } catch (const std::exception& error) {  // or an error caused by the other rank's end
      said.at(static_cast<std::size_t>(rank)) = error.what();
    }
  });
  EXPECT_THAT(said[0] + said[1], testing::HasSubstr("params[0] in this process with sizes"));
}

TEST(Ddp, StartsEveryRankFromTheWeightsAndBuffersOfRank0) {
  std::array<std::string, 3> states;
  run_ranks(3, [&](int rank, const ProcessGroup& group) {
    const auto model = std::make_shared<Sum>(2, 1.0F + static_cast<float>(rank));
    const Ddp ddp(model, group);
    states.at(static_cast<std::size_t>(rank)) = state_sha256(*model);
  });
  EXPECT_THAT(states, testing::Each(state_sha256(Sum(2, 1))));
  EXPECT_NE(state_sha256(Sum(2, 2)), state_sha256(Sum(2, 1)));
}

/// A Gloo group that counts the all-reduces of its rank.
class CountingGloo final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    ++all_reduces;
    return c10d::ProcessGroupGloo::allreduce(tensors, options);
  }

  int all_reduces = 0;
};

/// What training leaves behind on rank 0 of two.
struct Trained {
  std::string weights;  // sha256
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> gradients;
  int all_reduces = 0;
};

/// Four steps of SGD with the MNIST net: on each rank 64 images a step, in so many passes.
Trained train_net(const DdpOptions& options, int passes) {
  constexpr int kWorld = 2;
  constexpr std::int64_t kSteps = 4;
  constexpr std::int64_t kBatch = 64;
  at::set_num_threads(1);
  torch::manual_seed(1);
  const torch::Tensor images = torch::randn({kWorld, kSteps, kBatch, 1, 28, 28});
  const torch::Tensor labels = torch::randint(10, {kWorld, kSteps, kBatch});
  const std::array models = {make_model(ModelKind::kConvNet), make_model(ModelKind::kConvNet)};
  Trained trained;
  run_ranks<CountingGloo>(kWorld, [&](int rank, const ProcessGroup& group) {
    at::set_num_threads(1);
    const auto& model = models.at(static_cast<std::size_t>(rank));
    Ddp ddp(model, group, options);
    const auto optimizer =
        make_optimizer({.learning_rate = 0.01, .momentum = 0.9}, model->named_parameters());
    for (std::int64_t step = 0; step < kSteps; ++step) {
      ddp.zero_grad();
      const auto images_of_pass = images[rank][step].chunk(passes);
      const auto labels_of_pass = labels[rank][step].chunk(passes);
      for (int pass = 0; pass < passes; ++pass) {
        const auto at = static_cast<std::size_t>(pass);
        const bool is_last = pass + 1 == passes;
        const torch::Tensor output =
            ddp.forward(images_of_pass[at], is_last ? Gradients::kReduce : Gradients::kAccumulate);
        (model->loss(output, labels_of_pass[at]) / passes).backward();
      }
      optimizer->step();
    }
    if (rank != 0) return;
    trained.weights = weights_sha256(*model);
    trained.parameters = model->parameters();
    for (const torch::Tensor& parameter : trained.parameters) {
      trained.gradients.push_back(parameter.grad());
    }
    trained.all_reduces = dynamic_cast<CountingGloo&>(*group->getBackend(torch::kCPU)).all_reduces;
  });
  return trained;
}

TEST(Ddp, ReducesOnceForAllPassesOfAStepAndAddsUpToTheStepOfOnePass) {
  const Trained whole = train_net({}, 1);
  const Trained in_passes = train_net({}, 4);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    EXPECT_TRUE(torch::allclose(in_passes.parameters[i], whole.parameters[i], 0, 1e-6)) << i;
  }
  // In the first step the net is one bucket, after it two.
  EXPECT_EQ(whole.all_reduces, 1 + 3 * 2);
  EXPECT_EQ(in_passes.all_reduces, whole.all_reduces);
}

/// Not a piece of a bucket.
bool have_memory_of_their_own(const std::vector<torch::Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const torch::Tensor& tensor) {
    return tensor.storage().nbytes() == tensor.nbytes();
  });
}

TEST(Ddp, HasTheSameBitsWhetherGradientsAreViewsOfTheBucketsOrNot) {
  const Trained views = train_net({.gradients_are_views = true}, 1);
  const Trained copies = train_net({.gradients_are_views = false}, 1);
  EXPECT_FALSE(have_memory_of_their_own(views.gradients));
  EXPECT_TRUE(have_memory_of_their_own(copies.gradients));
  EXPECT_EQ(views.weights, copies.weights);
}

}  // namespace
}  // namespace ddprun
