// What Python's torch 2.11.0 returns for the same seeds: numbers recorded there, not computed
// here.

#include "base/digest.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/model.hpp"
#include "trainer/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <span>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using Samples = std::vector<std::int64_t>;

struct Epoch {
  std::int64_t n;
  std::int64_t number;
};

Samples shuffled(Epoch epoch, Share share, Tail tail = Tail::kPad) {
  return samples_of_rank(epoch_order(epoch.n, 0, epoch.number), share, tail, 0);
}

Samples first(const Samples& samples, std::size_t n) {
  return {samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(n)};
}

TEST(Sampler, ShufflesAsPythonsDistributedSampler) {
  EXPECT_THAT(shuffled({10, 0}, {.rank = 0, .world = 3}), ElementsAre(4, 5, 0, 2));
  EXPECT_THAT(shuffled({10, 0}, {.rank = 1, .world = 3}), ElementsAre(1, 3, 8, 4));
  EXPECT_THAT(shuffled({10, 0}, {.rank = 2, .world = 3}), ElementsAre(7, 9, 6, 1));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 0, .world = 3}), ElementsAre(5, 2, 9, 4));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 1, .world = 3}), ElementsAre(6, 0, 3, 5));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 2, .world = 3}), ElementsAre(1, 8, 7, 6));
}

TEST(Sampler, DropsTheTailAsPython) {
  EXPECT_THAT(shuffled({10, 0}, {.rank = 0, .world = 3}, Tail::kDrop), ElementsAre(4, 5, 0));
  EXPECT_THAT(shuffled({10, 0}, {.rank = 1, .world = 3}, Tail::kDrop), ElementsAre(1, 3, 8));
  EXPECT_THAT(shuffled({10, 0}, {.rank = 2, .world = 3}, Tail::kDrop), ElementsAre(7, 9, 6));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 0, .world = 3}, Tail::kDrop), ElementsAre(5, 2, 9));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 1, .world = 3}, Tail::kDrop), ElementsAre(6, 0, 3));
  EXPECT_THAT(shuffled({10, 1}, {.rank = 2, .world = 3}, Tail::kDrop), ElementsAre(1, 8, 7));
}

TEST(Sampler, RepeatsAListShorterThanTheWorldAsPython) {
  const std::vector<std::int64_t> expected = {2, 0, 1, 2, 0, 1, 2, 0};
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_THAT(
        shuffled({3, 0}, {.rank = rank, .world = 8}),
        ElementsAre(expected[static_cast<std::size_t>(rank)]));
  }
}

TEST(Sampler, MixesTheEpochIntoTheSeed) {
  EXPECT_THAT(shuffled({5, 7}, {.rank = 0, .world = 2}), ElementsAre(0, 3, 4));
  EXPECT_THAT(shuffled({5, 7}, {.rank = 1, .world = 2}), ElementsAre(1, 2, 0));
}

TEST(Sampler, ShufflesAWholeDatasetAsPython) {
  EXPECT_THAT(
      first(shuffled({45'000, 0}, {.rank = 0, .world = 2}), 5),
      ElementsAre(36044, 16461, 4107, 27505, 17041));
  EXPECT_THAT(
      first(shuffled({45'000, 0}, {.rank = 1, .world = 2}), 5),
      ElementsAre(24824, 10518, 27854, 19649, 6435));
  EXPECT_THAT(
      first(shuffled({45'000, 1}, {.rank = 0, .world = 2}), 5),
      ElementsAre(5845, 22632, 41307, 26651, 18839));
}

TEST(RandomOrder, IsPythonsRandperm) {
  EXPECT_THAT(random_order(10, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  EXPECT_THAT(first(random_order(6400, 1), 5), ElementsAre(4645, 6243, 4430, 937, 5171));
}

TEST(DefaultGenerator, DrawsAsPythons) {
  torch::manual_seed(0);
  const torch::Tensor uniform = torch::rand({3});
  EXPECT_FLOAT_EQ(uniform[0].item<float>(), .49625659F);
  EXPECT_FLOAT_EQ(uniform[1].item<float>(), .76822180F);
  EXPECT_FLOAT_EQ(uniform[2].item<float>(), .08847743F);
  torch::manual_seed(0);
  const torch::Tensor normal = torch::randn({3});
  EXPECT_FLOAT_EQ(normal[0].item<float>(), 1.5409961F);
  EXPECT_FLOAT_EQ(normal[1].item<float>(), -.2934289F);
  EXPECT_FLOAT_EQ(normal[2].item<float>(), -2.1787894F);
  torch::manual_seed(0);  // 16 numbers and more take another path
  const torch::Tensor many = torch::randn({16});
  EXPECT_FLOAT_EQ(many[0].item<float>(), -1.1258398F);
  EXPECT_FLOAT_EQ(many[1].item<float>(), -1.1523602F);
  torch::manual_seed(0);
  EXPECT_EQ(torch::empty({}, torch::kInt64).random_().item<std::int64_t>(), 900450186894289455);
}

std::string sha256_of(const torch::Tensor& values) {
  return sha256_hex({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

/// P12. The reference does not name the values of its own hash; these are Python's for these
/// values.
TEST(Dropout, MasksAsPythons) {
  torch::manual_seed(0);
  const torch::Tensor of_values = torch::nn::Dropout(.5)(torch::ones({1000}));
  EXPECT_EQ(
      sha256_of(of_values), "7867e2f68f5c178b2ddc99d206171d4428b13018f7f3e617e0b91dedfc23044f");
  const torch::Tensor of_channels = torch::nn::Dropout2d(.25)(torch::ones({2, 33, 2, 2}));
  EXPECT_EQ(
      sha256_of(of_channels), "20acdde39d01c73c9946f37883c991288ebb7cc18dad5dfb74fe4a5e1b2cbde8");
}

TEST(DrawAsDataLoader, IsOneInt64OfTheDefaultGenerator) {
  torch::manual_seed(0);
  draw_as_data_loader();
  const torch::Tensor after = torch::rand({4});
  torch::manual_seed(0);
  static_cast<void>(torch::empty({1}, torch::kInt64).random_());
  EXPECT_TRUE(torch::equal(torch::rand({4}), after));
}

TEST(RandomOrder, LeavesTheDefaultGeneratorAlone) {
  torch::manual_seed(0);
  static_cast<void>(random_order(100, 3));
  EXPECT_FLOAT_EQ(torch::rand({1})[0].item<float>(), .49625659F);
}

class FirstWeights : public ::testing::TestWithParam<ModelKind> {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    model_ = make_model(GetParam());
  }

  float weight(const std::string& name, std::int64_t index) {
    return model_->named_parameters()[name].flatten()[index].item<float>();
  }

  std::shared_ptr<Model> model_;
};

TEST_P(FirstWeights, ArePythons) {
  EXPECT_FLOAT_EQ(weight("conv1.weight", 0), -.0024956069F);
  EXPECT_FLOAT_EQ(weight("conv1.weight", 1), .17881453F);
  EXPECT_FLOAT_EQ(weight("conv1.weight", 2), -.274348378F);
  EXPECT_FLOAT_EQ(weight("conv1.bias", 0), -.0762254F);
  EXPECT_FLOAT_EQ(weight("fc2.bias", 0), .0859242529F);
  // Without buffers the weights are the state.
  EXPECT_EQ(weights_sha256(*model_).substr(0, 32), "2d2b94264c69af8598e330e30caea452");
}

INSTANTIATE_TEST_SUITE_P(
    OfEveryModel, FirstWeights, ::testing::Values(ModelKind::kConvNet, ModelKind::kSimpleConvNet));

TEST(SimpleConvNet, GivesPythonsScores) {
  torch::manual_seed(0);
  const std::shared_ptr<Model> model = make_model(ModelKind::kSimpleConvNet);
  model->eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor scores =
      model->forward(torch::linspace(-1, 1, std::int64_t{28} * 28).view({1, 1, 28, 28})).flatten();
  EXPECT_NEAR(scores[0].item<double>(), -2.237025, 1e-5);
  EXPECT_NEAR(scores[1].item<double>(), -2.416032, 1e-5);
  EXPECT_NEAR(scores[2].item<double>(), -2.262240, 1e-5);
}

}  // namespace
}  // namespace ddprun
