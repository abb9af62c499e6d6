#include "trainer/core/optimizer_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(const OptimizerOptions& options) {
  const auto checked = check_optimizer(options);
  return checked ? "accepted" : checked.error().detail;
}

TEST(OptimizerOptions, HaveANameForEveryKind) {
  std::set<std::string> names;
  for (const OptimizerKind kind : kOptimizerKinds) {
    names.insert(name_of(kind));
  }
  EXPECT_EQ(
      names, (std::set<std::string>{"sgd", "adam", "adamw", "adadelta", "rmsprop", "adagrad"}));
}

TEST(OptimizerOptions, DefaultToPythons) {
  EXPECT_EQ(default_options(OptimizerKind::kSgd).learning_rate, 1e-3);
  EXPECT_EQ(default_options(OptimizerKind::kSgd).momentum, 0);
  EXPECT_EQ(default_options(OptimizerKind::kAdam).weight_decay, 0);
  EXPECT_EQ(default_options(OptimizerKind::kAdamW).weight_decay, 0.01);
  EXPECT_EQ(default_options(OptimizerKind::kAdadelta).learning_rate, 1.0);
  EXPECT_EQ(default_options(OptimizerKind::kAdadelta).epsilon, 1e-6);
  EXPECT_EQ(default_options(OptimizerKind::kRmsProp).smoothing, 0.99);
  EXPECT_EQ(default_options(OptimizerKind::kAdagrad).epsilon, 1e-10);
}

TEST(CheckOptimizer, AcceptsTheDefaultsOfEveryKind) {
  for (const OptimizerKind kind : kOptimizerKinds) {
    EXPECT_EQ(default_options(kind).kind, kind);
    EXPECT_EQ(refusal_of(default_options(kind)), "accepted") << name_of(kind);
  }
}

TEST(CheckOptimizer, NamesTheKindTheValueAndTheOption) {
  OptimizerOptions options = default_options(OptimizerKind::kAdam);
  options.beta2 = 1;
  EXPECT_EQ(refusal_of(options), "adam: 1 is out of range for beta2");
}

TEST(CheckOptimizer, RefusesWhatPythonRefuses) {
  OptimizerOptions options;
  options.learning_rate = -1;
  EXPECT_THAT(refusal_of(options), HasSubstr("learning rate"));

  options = {};
  options.weight_decay = std::nan("");
  EXPECT_THAT(refusal_of(options), HasSubstr("weight decay"));

  options = {};
  options.momentum = std::numeric_limits<double>::infinity();
  EXPECT_THAT(refusal_of(options), HasSubstr("momentum"));

  options = {};
  options.is_nesterov = true;
  EXPECT_THAT(refusal_of(options), HasSubstr("nesterov needs a momentum"));
}

TEST(CheckOptimizer, AcceptsASmoothingOfOneAsPython) {
  OptimizerOptions options = default_options(OptimizerKind::kAdadelta);
  options.smoothing = 1;
  EXPECT_EQ(refusal_of(options), "accepted");
  options.smoothing = 1.5;
  EXPECT_THAT(refusal_of(options), HasSubstr("smoothing"));
}

}  // namespace
}  // namespace ddprun
