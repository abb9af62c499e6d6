// Weights, norms and losses that Python's torch 2.11.0 returns, recorded there; and what only our
// optimizers guarantee: their state by name, and that they resume from it.

#include "base/digest.hpp"
#include "trainer/clip.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/sampler.hpp"
#include "trainer/training_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Parameters = Optimizer::Parameters;

std::string sha256_of(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().contiguous();
  return sha256_hex({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

Parameters one_parameter(std::int64_t elements) {
  Parameters parameters;
  parameters.insert("p", torch::randn({elements}).requires_grad_());
  return parameters;
}

void set_gradients(const Parameters& parameters, const torch::Tensor& gradient) {
  for (const auto& item : parameters) {
    item.value().mutable_grad() = gradient.expand(item.value().sizes()).clone();
  }
}

/// Twenty steps of a vector of 1000 by random gradients, seed 0.
torch::Tensor weights_after_twenty_steps(const OptimizerOptions& options) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  const Parameters parameters = one_parameter(1000);
  const auto optimizer = make_optimizer(options, parameters);
  for (int step = 0; step < 20; ++step) {
    parameters["p"].mutable_grad() = torch::randn({1000});
    optimizer->step();
  }
  return parameters["p"].detach();
}

class GoldenWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    if (at::get_cpu_capability() != "AVX2") {
      GTEST_SKIP() << "the hashes hold for AVX2 kernels, and these are " << at::get_cpu_capability()
                   << "; set ATEN_CPU_CAPABILITY=avx2";
    }
  }

  static std::string hash(const torch::Tensor& weights) { return sha256_of(weights).substr(0, 16); }
};

TEST_F(GoldenWeights, OfSgdArePythons) {
  OptimizerOptions options = default_options(OptimizerKind::kSgd);
  options.learning_rate = 0.1;
  const torch::Tensor plain = weights_after_twenty_steps(options);
  EXPECT_FLOAT_EQ(plain[0].item<float>(), .126869693F);
  EXPECT_FLOAT_EQ(plain[1].item<float>(), -1.38485813F);
  EXPECT_EQ(hash(plain), "87b563e059515999");

  options.momentum = 0.9;
  const torch::Tensor with_momentum = weights_after_twenty_steps(options);
  EXPECT_FLOAT_EQ(with_momentum[0].item<float>(), 6.46616364F);
  EXPECT_FLOAT_EQ(with_momentum[1].item<float>(), -1.990731F);
  EXPECT_EQ(hash(with_momentum), "ead28fa67723f928");
}

TEST_F(GoldenWeights, OfAdamArePythons) {
  const torch::Tensor weights = weights_after_twenty_steps(default_options(OptimizerKind::kAdam));
  EXPECT_FLOAT_EQ(weights[0].item<float>(), -1.11462522F);
  EXPECT_FLOAT_EQ(weights[1].item<float>(), -1.15295708F);
  EXPECT_EQ(hash(weights), "2aa81ddba33b3933");
}

TEST_F(GoldenWeights, OfAdamWArePythons) {
  OptimizerOptions options = default_options(OptimizerKind::kAdamW);
  options.weight_decay = 0.05;
  const torch::Tensor weights = weights_after_twenty_steps(options);
  EXPECT_FLOAT_EQ(weights[0].item<float>(), -1.11350536F);
  EXPECT_FLOAT_EQ(weights[1].item<float>(), -1.15180528F);
  EXPECT_EQ(hash(weights), "82a2ab8ffbc27eb6");
}

TEST_F(GoldenWeights, OfAdadeltaArePythons) {
  const torch::Tensor weights =
      weights_after_twenty_steps(default_options(OptimizerKind::kAdadelta));
  EXPECT_EQ(hash(weights), "57c3cdc16fe9383d");
}

/// The first 1,600 images of MNIST, from DDPRUN_MNIST_DIR.
std::optional<TrainingData> open_mnist() {
  const char* const directory = std::getenv("DDPRUN_MNIST_DIR");
  if (directory == nullptr || *directory == '\0') return std::nullopt;
  DataOptions options;
  options.kind = DatasetKind::kMnist;
  options.directory = directory;
  options.limit_train = 1600;
  auto opened = open_training_data(options, {.channels = 1, .side = 28}, 0);
  if (!opened) return std::nullopt;
  return std::optional(*std::move(opened));
}

struct J3 {
  std::vector<double> losses;
  std::vector<double> norms;
  std::string weights;  // sha256
};

/// The first epoch of the reference's third job, with one rank: `make` returns the function of a
/// step.
J3 train_j3(
    const TrainingData& data, const std::function<std::function<void()>(const Parameters&)>& make) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  const auto model = make_model(ModelKind::kConvNet);
  const std::function<void()> step = make(model->named_parameters());
  Loader loader(*data.train.source, {.batch_size = 64});
  EXPECT_TRUE(loader.start(epoch_order(1600, 0, 0)));

  J3 job;
  for (auto batch = loader.next(); batch && *batch; batch = loader.next()) {
    model->zero_grad();
    const torch::Tensor loss = model->loss(model->forward((*batch)->images), (*batch)->labels);
    loss.backward();
    job.losses.push_back(loss.item<double>());
    job.norms.push_back(clip_gradients(model->parameters(), 1.0));
    step();
  }
  job.weights = weights_sha256(*model);
  return job;
}

TEST_F(GoldenWeights, OfJ3ByAdamWAndClippingArePythons) {
  const auto data = open_mnist();
  if (!data) GTEST_SKIP() << "DDPRUN_MNIST_DIR does not name MNIST's IDX files";
  OptimizerOptions options = default_options(OptimizerKind::kAdamW);
  options.weight_decay = 0.05;
  const J3 job = train_j3(*data, [&](const Parameters& parameters) {
    return [ours = std::shared_ptr(make_optimizer(options, parameters))] { ours->step(); };
  });
  ASSERT_EQ(job.losses.size(), 25U);
  EXPECT_NEAR(job.losses[0], 2.299342, 5.1e-7);
  EXPECT_NEAR(job.losses[1], 2.246572, 5.1e-7);
  EXPECT_NEAR(job.losses[2], 2.174347, 5.1e-7);
  EXPECT_NEAR(job.losses[9], .951521, 5.1e-7);
  EXPECT_NEAR(job.norms[0], 1.334958, 5.1e-7);
  EXPECT_NEAR(job.norms[1], 1.944405, 5.1e-7);
  EXPECT_NEAR(job.norms[2], 2.407800, 5.1e-7);
  EXPECT_EQ(job.weights, "3ca3b1f92a08daf17585e359827122584bcd6aff62c285f910e2178b5dc8f8fb");
}

/// Why we have our own (P14): libtorch's rounds the first moment at another point.
TEST_F(GoldenWeights, OfJ3ByLibtorchsAdamWAreNotPythons) {
  const auto data = open_mnist();
  if (!data) GTEST_SKIP() << "DDPRUN_MNIST_DIR does not name MNIST's IDX files";
  const J3 job = train_j3(*data, [](const Parameters& parameters) {
    const auto options = torch::optim::AdamWOptions(1e-3).weight_decay(0.05);
    const auto theirs = std::make_shared<torch::optim::AdamW>(parameters.values(), options);
    return [theirs] { theirs->step(); };
  });
  EXPECT_EQ(job.weights.substr(0, 16), "f8de1033e0f3c338");
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> state_names(const OptimizerOptions& options) {
  const Parameters parameters = one_parameter(3);
  const auto optimizer = make_optimizer(options, parameters);
  set_gradients(parameters, torch::ones({}));
  optimizer->step();
  return names_of(optimizer->state());
}

TEST(Optimizer, NamesItsStateAsPythonsStateDict) {
  OptimizerOptions sgd = default_options(OptimizerKind::kSgd);
  EXPECT_THAT(state_names(sgd), IsEmpty());
  sgd.momentum = 0.9;
  EXPECT_THAT(state_names(sgd), ElementsAre("p.momentum_buffer"));
  const auto adam = ElementsAre("p.step", "p.exp_avg", "p.exp_avg_sq");
  EXPECT_THAT(state_names(default_options(OptimizerKind::kAdam)), adam);
  EXPECT_THAT(state_names(default_options(OptimizerKind::kAdamW)), adam);
  EXPECT_THAT(
      state_names(default_options(OptimizerKind::kAdadelta)),
      ElementsAre("p.step", "p.square_avg", "p.acc_delta"));
  OptimizerOptions rmsprop = default_options(OptimizerKind::kRmsProp);
  EXPECT_THAT(state_names(rmsprop), ElementsAre("p.step", "p.square_avg"));
  rmsprop.momentum = 0.9;
  rmsprop.is_centered = true;
  EXPECT_THAT(
      state_names(rmsprop),
      ElementsAre("p.step", "p.square_avg", "p.momentum_buffer", "p.grad_avg"));
  EXPECT_THAT(
      state_names(default_options(OptimizerKind::kAdagrad)), ElementsAre("p.step", "p.sum"));
}

TEST(Optimizer, SkipsAParameterWithoutGradient) {
  Parameters parameters = one_parameter(3);
  parameters.insert("q", torch::ones({2}).requires_grad_());
  const auto optimizer = make_optimizer(default_options(OptimizerKind::kAdamW), parameters);
  parameters["p"].mutable_grad() = torch::ones({3});
  optimizer->step();
  EXPECT_TRUE(torch::equal(parameters["q"].detach(), torch::ones({2})));
  EXPECT_THAT(names_of(optimizer->state()), ElementsAre("p.step", "p.exp_avg", "p.exp_avg_sq"));
}

/// What a run of `kind` has after six steps, changing hands after `saved_at`; 0: never.
torch::Tensor weights_with_a_break(const OptimizerOptions& options, int saved_at) {
  torch::manual_seed(0);
  const Parameters parameters = one_parameter(20'000);
  auto optimizer = make_optimizer(options, parameters);
  for (int step = 1; step <= 6; ++step) {
    set_gradients(parameters, torch::randn({20'000}));
    optimizer->step();
    if (step != saved_at) continue;
    NamedTensors saved;
    for (const auto& [name, tensor] : optimizer->state()) {
      saved.emplace_back(name, tensor.clone());
    }
    optimizer = make_optimizer(options, parameters);
    EXPECT_TRUE(fill(optimizer->make_state(views_of(saved)), views_of(saved)).has_value());
  }
  return parameters["p"].detach();
}

TEST(Optimizer, ResumesFromASavedStateWithTheSameBits) {
  std::vector<OptimizerOptions> cases;
  cases.reserve(kOptimizerKinds.size() + 1);
  for (const OptimizerKind kind : kOptimizerKinds) {
    cases.push_back(default_options(kind));
  }
  cases.push_back(default_options(OptimizerKind::kSgd));
  cases.back().momentum = 0.9;
  cases.push_back(default_options(OptimizerKind::kRmsProp));
  cases.back().momentum = 0.9;
  cases.back().is_centered = true;
  for (const OptimizerOptions& options : cases) {
    const torch::Tensor whole = weights_with_a_break(options, 0);
    EXPECT_TRUE(torch::equal(weights_with_a_break(options, 3), whole)) << name_of(options.kind);
  }
}

TEST(Optimizer, KeepsItsStateWhenGradientsAreSetToNone) {
  const Parameters parameters = one_parameter(4);
  OptimizerOptions options;
  options.learning_rate = 1;
  options.momentum = 0.5;
  const auto optimizer = make_optimizer(options, parameters);
  const torch::Tensor start = parameters["p"].detach().clone();
  torch::Tensor bucket = torch::ones({4});
  parameters["p"].mutable_grad() = bucket.view({4});  // as DDP gives it
  optimizer->step();
  parameters["p"].mutable_grad().reset();
  bucket.zero_();
  optimizer->step();  // no gradient, no step
  parameters["p"].mutable_grad() = torch::zeros({4});
  optimizer->step();  // 0.5 of the first gradient, 1
  EXPECT_TRUE(torch::allclose(start - parameters["p"].detach(), torch::full({4}, 1.5)));
}

TEST(Optimizer, StepsAtTheRateItWasTold) {
  const Parameters parameters = one_parameter(4);
  const auto optimizer = make_optimizer(default_options(OptimizerKind::kSgd), parameters);
  const torch::Tensor start = parameters["p"].detach().clone();
  set_gradients(parameters, torch::ones({}));
  optimizer->set_learning_rate(0.25);
  optimizer->step();
  EXPECT_EQ(optimizer->learning_rate(), 0.25);
  EXPECT_TRUE(torch::equal(parameters["p"].detach(), start - 0.25));
}

}  // namespace
}  // namespace ddprun
