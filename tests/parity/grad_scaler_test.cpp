#include "trainer/grad_scaler.hpp"

#include "trainer/clip.hpp"
#include "trainer/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <map>
#include <memory>
#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Parameters = Optimizer::Parameters;

/// A vector with this gradient, or none.
Parameters with_gradient(const torch::Tensor& gradient) {
  Parameters parameters;
  parameters.insert("p", torch::zeros({2}).requires_grad_());
  parameters["p"].mutable_grad() = gradient;
  return parameters;
}

TEST(ClipGradients, LeavesASmallNormAloneAndReturnsIt) {
  const Parameters parameters = with_gradient(torch::tensor({3.0F, 4.0F}));
  EXPECT_EQ(gradient_norm(parameters.values()), 5);
  EXPECT_EQ(clip_gradients(parameters.values(), 10), 5);
  EXPECT_TRUE(torch::equal(parameters["p"].grad(), torch::tensor({3.0F, 4.0F})));
}

TEST(ClipGradients, ScalesALargeNormToTheLimit) {
  const Parameters parameters = with_gradient(torch::tensor({60.0F, 80.0F}));
  EXPECT_EQ(clip_gradients(parameters.values(), 1), 100);
  EXPECT_LE(gradient_norm(parameters.values()), 1);
  EXPECT_GT(gradient_norm(parameters.values()), 0.999999);
}

TEST(ClipGradients, OfNothingIsZero) {
  const Parameters parameters = with_gradient({});
  EXPECT_EQ(clip_gradients(parameters.values(), 1), 0);
  EXPECT_EQ(gradient_norm(parameters.values()), 0);
}

/// One parameter under SGD with rate 1, so that a step is its gradient.
class GradScalerTest : public ::testing::Test {
 protected:
  void step(float gradient) {
    parameters_["p"].mutable_grad() = torch::full({1}, gradient * scale());
    scaler_.step(*optimizer_);
    scaler_.update();
  }

  float scale() const { return static_cast<float>(scaler_.current_scale()); }
  float weight() const { return parameters_["p"].item<float>(); }

  static Parameters zero() {
    Parameters parameters;
    parameters.insert("p", torch::zeros({1}).requires_grad_());
    return parameters;
  }

  Parameters parameters_ = zero();
  std::unique_ptr<Optimizer> optimizer_ = make_optimizer({.learning_rate = 1}, parameters_);
  GradScaler scaler_;
};

TEST_F(GradScalerTest, TakesTheScaleOutOfTheGradients) {
  step(1);
  EXPECT_EQ(weight(), -1);
  EXPECT_EQ(scale(), 65'536);
}

TEST_F(GradScalerTest, SkipsAStepThatIsNotFiniteAndHalvesTheScale) {
  step(1);
  step(1);
  step(std::numeric_limits<float>::infinity());
  EXPECT_EQ(weight(), -2);
  EXPECT_EQ(scale(), 32'768);
  step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(weight(), -2);
  EXPECT_EQ(scale(), 16'384);
  step(1);
  EXPECT_EQ(weight(), -3);
}

TEST_F(GradScalerTest, DoublesTheScaleAfterTwoThousandGoodSteps) {
  for (int i = 0; i < 1999; ++i) {
    step(0);
  }
  EXPECT_EQ(scale(), 65'536);
  step(0);
  EXPECT_EQ(scale(), 131'072);
}

TEST_F(GradScalerTest, ResumesFromItsStateToTheSameStep) {
  for (int i = 0; i < 1999; ++i) {
    step(0);
  }
  GradScaler resumed({.init_scale = 2, .growth_interval = 5});
  ASSERT_TRUE(resumed.load(scaler_.state()).has_value());
  EXPECT_EQ(resumed.state(), scaler_.state());
  EXPECT_EQ(resumed.state().at("_growth_tracker"), 1999);
  parameters_["p"].mutable_grad() = torch::zeros({1});
  EXPECT_TRUE(resumed.step(*optimizer_));
  resumed.update();
  EXPECT_EQ(resumed.current_scale(), 131'072);
}

TEST_F(GradScalerTest, RefusesAStateItCannotHaveWritten) {
  const std::map<std::string, double> good = scaler_.state();
  const auto refusal_of = [this, &good](const std::string& key, double value) {
    auto state = good;
    state[key] = value;
    const auto loaded = scaler_.load(state);
    return loaded ? "accepted" : loaded.error().detail;
  };
  EXPECT_EQ(refusal_of("scale", 4), "accepted");
  EXPECT_THAT(refusal_of("scale", 0), HasSubstr("'scale' is 0"));
  EXPECT_THAT(refusal_of("scale", 1e39), HasSubstr("'scale'"));
  EXPECT_THAT(refusal_of("growth_factor", 1), HasSubstr("'growth_factor' is 1"));
  EXPECT_THAT(refusal_of("backoff_factor", 1), HasSubstr("'backoff_factor' is 1"));
  EXPECT_THAT(refusal_of("growth_interval", 2.5), HasSubstr("'growth_interval' is 2.5"));
  EXPECT_THAT(refusal_of("_growth_tracker", -1), HasSubstr("'_growth_tracker' is -1"));
  EXPECT_EQ(scale(), 4) << "a refusal changes nothing";
  EXPECT_THAT(scaler_.load({{"scale", 4.0}}).error().detail, HasSubstr("'growth_factor' is nan"));
}

}  // namespace
}  // namespace ddprun
