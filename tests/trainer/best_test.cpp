#include "trainer/core/best.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

std::optional<BestSoFar> best(BestMetric metric, double value) {
  return BestSoFar{.metric = metric, .value = value, .epoch = 4, .snapshot = {}};
}

TEST(Best, IsMoreAccuracyAndLessLoss) {
  using enum BestMetric;
  EXPECT_TRUE(is_better(kAccuracy, 72, best(kAccuracy, 71)));
  EXPECT_FALSE(is_better(kAccuracy, 70, best(kAccuracy, 71)));
  EXPECT_TRUE(is_better(kLoss, 0.1, best(kLoss, 0.2)));
  EXPECT_FALSE(is_better(kLoss, 0.3, best(kLoss, 0.2)));
}

TEST(Best, OfEqualsIsTheFirst) {
  EXPECT_FALSE(is_better(BestMetric::kAccuracy, 71, best(BestMetric::kAccuracy, 71)));
  EXPECT_FALSE(is_better(BestMetric::kLoss, 0.2, best(BestMetric::kLoss, 0.2)));
}

TEST(Best, IsAnythingFiniteAtFirst) {
  EXPECT_TRUE(is_better(BestMetric::kAccuracy, 0, std::nullopt));
  EXPECT_TRUE(is_better(BestMetric::kLoss, 99, std::nullopt));
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(is_better(BestMetric::kLoss, value, std::nullopt));
    EXPECT_FALSE(is_better(BestMetric::kAccuracy, value, best(BestMetric::kAccuracy, 1)));
  }
}

TEST(Best, ByAnotherMetricDoesNotCount) {
  EXPECT_TRUE(is_better(BestMetric::kLoss, 5, best(BestMetric::kAccuracy, 71)));
}

TEST(Best, HasAWordForEachMetric) {
  for (const BestMetric metric : kBestMetrics) {
    EXPECT_EQ(best_metric_of(name_of(metric)), metric);
  }
  EXPECT_EQ(best_metric_of("beauty"), std::nullopt);
  EXPECT_EQ(best_text(*best(BestMetric::kAccuracy, 71.82)), "accuracy 71.82 after epoch 4");
}

}  // namespace
}  // namespace ddprun
