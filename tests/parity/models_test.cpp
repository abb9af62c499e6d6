// What Python's torch 2.11.0 and torchvision 0.26.0 return for the same seeds: numbers recorded
// there, not computed here. models_test.py compares them again.

#include "trainer/model.hpp"
#include "trainer/models/load_weights.hpp"
#include "trainer/models/transformer_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Model> built(ModelKind kind, std::int64_t seed, std::int64_t classes = 0) {
  ModelOptions options = default_model(kind);
  if (classes > 0) options.classes = classes;
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return make_model(options);
}

std::int64_t count_parameters(const ModelOptions& options) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : make_model(options)->parameters()) {
    count += parameter.numel();
  }
  return count;
}

std::int64_t count_parameters(ModelKind kind) {
  return count_parameters(default_model(kind));
}

TEST(Parameters, AreAsManyAsPythons) {
  EXPECT_EQ(count_parameters(ModelKind::kConvNet), 1'199'882);
  EXPECT_EQ(count_parameters(ModelKind::kSimpleConvNet), 1'199'882);
  EXPECT_EQ(count_parameters(ModelKind::kMyNet), 1'201'382);
  EXPECT_EQ(count_parameters(ModelKind::kDummy), 2'000);
  EXPECT_EQ(count_parameters(ModelKind::kCrusoeVitTiny), 116'938);
  EXPECT_EQ(count_parameters(ModelKind::kResnet18), 11'689'512);
  EXPECT_EQ(count_parameters(ModelKind::kResnet34), 21'797'672);
  EXPECT_EQ(count_parameters(ModelKind::kResnet50), 25'557'032);
  EXPECT_EQ(count_parameters(ModelKind::kResnet101), 44'549'160);
  EXPECT_EQ(count_parameters(ModelKind::kResnet152), 60'192'808);
  EXPECT_EQ(count_parameters(ModelKind::kVitB16), 86'567'656);
  EXPECT_EQ(count_parameters(ModelKind::kVitB32), 88'224'232);
}

TEST(Parameters, OfLargeModelsAreAsManyAsPythons) {
  EXPECT_EQ(count_parameters(ModelKind::kVitL16), 304'326'632);
  EXPECT_EQ(count_parameters(ModelKind::kVitL32), 306'535'400);
  EXPECT_EQ(count_parameters(ModelKind::kCrusoeVitLarge), 304'117'736);
  EXPECT_EQ(count_parameters(ModelKind::kCrusoeVitHuge), 631'907'560);
}

TEST(Parameters, FollowTheNumberOfClasses) {
  ModelOptions options = default_model(ModelKind::kResnet18);
  options.classes = 10;
  EXPECT_EQ(count_parameters(options), 11'181'642);
  options = default_model(ModelKind::kResnet50);
  options.classes = 200;
  EXPECT_EQ(count_parameters(options), 23'917'832);
}

TEST(Parameters, FollowTheImage) {
  ModelOptions options = default_model(ModelKind::kCrusoeVitLarge);
  options.image.side = 256;
  EXPECT_EQ(count_parameters(options), 304'314'344);
  options.image.side = 288;
  EXPECT_EQ(count_parameters(options), 304'383'976);
  options = default_model(ModelKind::kCrusoeVitHuge);
  options.image.side = 256;
  EXPECT_EQ(count_parameters(options), 632'153'320);
  options.image.side = 288;
  EXPECT_EQ(count_parameters(options), 632'240'360);
}

/// A model freshly built, and its weights by name.
class FirstValues : public ::testing::Test {
 protected:
  void build(ModelKind kind, std::int64_t seed, std::int64_t classes = 0) {
    model_ = built(kind, seed, classes);
  }

  void expect_starts(const std::string& name, std::initializer_list<float> values) {
    const torch::Tensor weights = model_->named_parameters()[name].flatten();
    std::int64_t index = 0;
    for (const float value : values) {
      EXPECT_FLOAT_EQ(weights[index++].item<float>(), value) << name;
    }
  }

  void expect_hash(const char* hash) { EXPECT_EQ(state_sha256(*model_).substr(0, 32), hash); }

 private:
  std::shared_ptr<Model> model_;
};

TEST_F(FirstValues, OfSimpleConvNetArePythons) {
  build(ModelKind::kSimpleConvNet, 0);
  expect_starts("conv1.weight", {-.0024956069F, .17881453F, -.274348378F});
  expect_starts("conv1.bias", {-.0762254F, -.0148237152F});
  expect_starts("fc2.bias", {.0859242529F});
  expect_hash("2d2b94264c69af8598e330e30caea452");
}

TEST_F(FirstValues, OfConvNetAreThoseOfSimpleConvNet) {
  build(ModelKind::kConvNet, 0);
  expect_hash("2d2b94264c69af8598e330e30caea452");
}

TEST_F(FirstValues, OfMyNetArePythons) {
  build(ModelKind::kMyNet, 0);
  expect_starts("fc2.weight", {-.0871019736F});
  expect_starts("fc3.bias", {-.113877848F});
  expect_hash("87be5a7532fa0f8368a00c98fa30fd0a");
}

TEST_F(FirstValues, OfResnet18AreTorchvisions) {
  build(ModelKind::kResnet18, 0, 10);
  expect_starts("conv1.weight", {.00219705328F, .0353360772F});
  expect_starts("fc.bias", {.0255053602F});
  expect_hash("33fa3a8d2790086887f96aa0c488ed05");
}

TEST_F(FirstValues, OfResnet18WithAnotherSeedAreTorchvisions) {
  build(ModelKind::kResnet18, 42, 10);
  expect_starts("conv1.weight", {.0194568727F, -.0126657635F});
  expect_starts("fc.bias", {-.0264427848F});
  expect_hash("f3f12699f3f0b2e242b94c45e5aa3df0");
}

TEST_F(FirstValues, OfVitB32AreTorchvisions) {
  build(ModelKind::kVitB32, 0);
  expect_starts("conv_proj.weight", {-.0223193374F, .00251964759F});
  expect_starts("encoder.pos_embedding", {-.00680770446F});
  expect_starts("encoder.layers.encoder_layer_0.self_attention.in_proj_weight", {-.00539033441F});
  expect_hash("4539b78670779fc784d78c5c7b62a0c8");
}

TEST_F(FirstValues, OfCrusoesSmallVitArePythons) {
  build(ModelKind::kCrusoeVitTiny, 0);
  expect_starts("cls_token", {.655890584F});
  expect_starts("pos_embedding", {-1.8808701F});
  expect_hash("28d861d4d9dcef7b6b6226ba4544cbac");
}

TEST(TruncNormal, DrawsAsPythons) {
  torch::manual_seed(0);
  torch::Tensor tensor = torch::empty({3, 5});
  fill_trunc_normal(tensor, .02);
  EXPECT_FLOAT_EQ(tensor[0][0].item<float>(), -.00018766950F);
  EXPECT_FLOAT_EQ(tensor[0][1].item<float>(), .014660066F);
}

TEST(TruncNormal, LeavesNothingBeyondTwo) {
  torch::manual_seed(0);
  torch::Tensor tensor = torch::empty({10'000});
  fill_trunc_normal(tensor, 3);
  EXPECT_LE(tensor.abs().max().item<float>(), 2);
  EXPECT_GT(tensor.abs().max().item<float>(), 1.99);
}

/// For one image, linspace(-1, 1), without dropout: the largest difference from `expected`.
double worst_score(Model& model, const ImageShape& image, std::initializer_list<double> expected) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const torch::Tensor scores =
      model
          .forward(torch::linspace(-1, 1, image.channels * image.side * image.side)
                       .view({1, image.channels, image.side, image.side}))
          .flatten();
  double worst = 0;
  std::int64_t index = 0;
  for (const double value : expected) {
    worst = std::max(worst, std::abs(scores[index++].item<double>() - value));
  }
  return worst;
}

TEST(Scores, OfSimpleConvNetArePythons) {
  const auto model = built(ModelKind::kSimpleConvNet, 0);
  EXPECT_LT(worst_score(*model, {1, 28}, {-2.237025, -2.416032, -2.262240}), 1e-5);
}

TEST(Scores, OfResnet18AreTorchvisions) {
  const auto model = built(ModelKind::kResnet18, 42, 10);
  EXPECT_LT(worst_score(*model, {3, 32}, {-.111852, .033186, -.161969}), 1e-5);
}

TEST(Scores, OfCrusoesSmallVitArePythons) {
  const auto model = built(ModelKind::kCrusoeVitTiny, 0);
  EXPECT_LT(worst_score(*model, {3, 32}, {-.410272, -.140073, -.509358}), 1e-5);
}

TEST(Scores, OfVitB32ShowTheEncodersOutputAtTheClassToken) {
  const auto model = built(ModelKind::kVitB32, 0);
  EXPECT_EQ(worst_score(*model, {3, 224}, {0, 0, 0}), 0);  // the head begins with zeros
  const torch::NoGradGuard no_gradients;
  torch::Tensor head = model->named_parameters()["heads.head.weight"];
  head.copy_(torch::eye(head.size(0), head.size(1)));
  EXPECT_LT(worst_score(*model, {3, 224}, {-.032218, 1.438349, -.379163}), 1e-5);
}

TEST(State, IsInTheOrderOfPythonsStateDict) {
  const auto model = built(ModelKind::kResnet18, 0, 10);
  const auto state = state_of(*model);
  ASSERT_EQ(state.size(), 122);
  std::vector<std::string> names;
  names.reserve(state.size());
  for (const auto& [name, tensor] : state) {
    names.push_back(name);
  }
  EXPECT_THAT(
      std::vector<std::string>(names.begin(), names.begin() + 7),
      ElementsAre(
          "conv1.weight",
          "bn1.weight",
          "bn1.bias",
          "bn1.running_mean",
          "bn1.running_var",
          "bn1.num_batches_tracked",
          "layer1.0.conv1.weight"));
}

TEST(StateHash, FollowsTheBuffersAndTheWeightsHashDoesNot) {
  const auto model = built(ModelKind::kResnet18, 0, 10);
  const std::string weights = weights_sha256(*model);
  const std::string state = state_sha256(*model);
  model->named_buffers()["bn1.num_batches_tracked"].fill_(1);
  EXPECT_EQ(weights_sha256(*model), weights);
  EXPECT_NE(state_sha256(*model), state);
}

TEST(LoadWeights, MakesTwoModelsOne) {
  const auto from = built(ModelKind::kResnet18, 1, 10);
  from->named_buffers()["bn1.num_batches_tracked"].fill_(7);
  const auto to = built(ModelKind::kResnet18, 2, 10);
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : state_of(*from)) {
    views.push_back(
        {.name = "module." + name,
         .dtype = tensor.scalar_type() == torch::kInt64 ? DType::kI64 : DType::kF32,
         .shape = tensor.sizes().vec(),
         .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  const auto report = load_weights(*to, views);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_TRUE(report->is_complete());
  EXPECT_EQ(state_sha256(*to), state_sha256(*from));
}

TEST(LoadWeights, LeavesTheModelAsItWasWhenItFails) {
  const auto model = built(ModelKind::kDummy, 0);
  const std::string before = state_sha256(*model);
  const std::vector<float> ones(1000, 1);
  const auto bytes = std::as_bytes(std::span(ones));
  const std::vector<TensorView> views = {
      {.name = "fc.weight", .dtype = DType::kF32, .shape = {1000, 1}, .bytes = bytes},
      {.name = "module.fc.weight", .dtype = DType::kF32, .shape = {1000, 1}, .bytes = bytes}};
  EXPECT_FALSE(load_weights(*model, views).has_value());
  EXPECT_EQ(state_sha256(*model), before);
}

TEST(LoadWeights, KeepsAHeadOfAnotherNumberOfClasses) {
  const auto model = built(ModelKind::kDummy, 0);
  const std::string bias = "fc.bias";
  const torch::Tensor before = model->named_parameters()[bias].detach().clone();
  const std::vector<float> numbers(1000, 0.5F);
  const auto bytes = std::as_bytes(std::span(numbers));
  const std::vector<TensorView> views = {
      {.name = "fc.weight", .dtype = DType::kF32, .shape = {1000, 1}, .bytes = bytes},
      {.name = bias, .dtype = DType::kF32, .shape = {10}, .bytes = bytes.first(40)}};
  const auto report = load_weights(*model, views);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_THAT(report->reshaped, ElementsAre(bias));
  EXPECT_TRUE(torch::equal(model->named_parameters()[bias], before));
  EXPECT_EQ(model->named_parameters()["fc.weight"].max().item<float>(), 0.5F);
}

TEST(LoadWeights, WidensFloatsOfHalfTheSize) {
  const auto model = built(ModelKind::kDummy, 0);
  const torch::Tensor halves = torch::full({1000, 1}, 0.25, torch::kBFloat16);
  const std::vector<TensorView> views = {
      {.name = "fc.weight",
       .dtype = DType::kBF16,
       .shape = {1000, 1},
       .bytes = {static_cast<const std::byte*>(halves.const_data_ptr()), halves.nbytes()}}};
  const auto report = load_weights(*model, views);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_THAT(report->missing, ElementsAre("fc.bias"));
  EXPECT_EQ(model->named_parameters()["fc.weight"].min().item<float>(), 0.25F);
}

}  // namespace
}  // namespace ddprun
