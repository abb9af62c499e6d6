#include "trainer/core/load_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A model of two layers and a count, and files that fit it more or less.
class LoadPlanTest : public ::testing::Test {
 protected:
  void has(const char* name, std::vector<std::int64_t> shape, DType dtype = DType::kF32) {
    file_.push_back({.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = {}});
  }

  void has_body() {
    has("body.weight", {3, 2});
    has("body.batches", {}, DType::kI64);
  }

  LoadPlan plan() const { return *plan_load(model_, file_, "fc"); }

  std::string refusal() const {
    const auto plan = plan_load(model_, file_, "fc");
    return plan ? "accepted" : plan.error().detail;
  }

 private:
  std::vector<TensorSpec> model_ = {
      {.name = "body.weight", .dtype = DType::kF32, .shape = {3, 2}},
      {.name = "body.batches", .dtype = DType::kI64, .shape = {}},
      {.name = "fc.weight", .dtype = DType::kF32, .shape = {10, 3}},
      {.name = "fc.bias", .dtype = DType::kF32, .shape = {10}}};
  std::vector<TensorView> file_;
};

using LoadPlanCopy = LoadPlan::Copy;

TEST_F(LoadPlanTest, FillsEveryTensorFromTheOneOfItsName) {
  has("fc.bias", {10});
  has("fc.weight", {10, 3});
  has_body();
  EXPECT_TRUE(plan().report.is_complete());
  EXPECT_THAT(
      plan().copies,
      ElementsAre(
          LoadPlanCopy{.from = 2, .to = 0},
          LoadPlanCopy{.from = 3, .to = 1},
          LoadPlanCopy{.from = 1, .to = 2},
          LoadPlanCopy{.from = 0, .to = 3}));
}

TEST_F(LoadPlanTest, DoesNotMindThePrefixOfDistributedDataParallel) {
  has("module.body.weight", {3, 2});
  has("module.module.fc.bias", {10});
  EXPECT_THAT(plan().copies, ElementsAre(LoadPlanCopy{.from = 0, .to = 0}));
  EXPECT_THAT(plan().report.unexpected, ElementsAre("module.fc.bias"));
}

TEST_F(LoadPlanTest, ReportsAHeadOfAnotherNumberOfClasses) {
  has_body();
  has("fc.weight", {1000, 3});
  has("fc.bias", {1000});
  EXPECT_THAT(plan().report.reshaped, ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(plan().report.missing, IsEmpty());
  EXPECT_EQ(plan().copies.size(), 2);
  EXPECT_FALSE(plan().report.is_complete());
}

TEST_F(LoadPlanTest, RefusesAnotherShapeAnywhereElse) {
  has("fc.bias", {10});
  has("body.weight", {2, 3});
  EXPECT_EQ(
      refusal(), "tensor 'body.weight' is F32 [2, 3] in the file, but the model's is F32 [3, 2]");
}

TEST_F(LoadPlanTest, TakesALayerForTheHeadByItsWholeName) {
  const std::vector<TensorSpec> model = {{.name = "fc2.bias", .shape = {10}}};
  const std::vector<TensorView> file = {{.name = "fc2.bias", .shape = {9}, .bytes = {}}};
  EXPECT_FALSE(plan_load(model, file, "fc").has_value());
  EXPECT_FALSE(plan_load(model, file, "fc2.bias").has_value());
}

TEST_F(LoadPlanTest, ReportsWhatIsMissingAndWhatIsUnexpected) {
  has("body.weight", {3, 2});
  has("stem.weight", {1});
  EXPECT_THAT(plan().report.missing, ElementsAre("body.batches", "fc.weight", "fc.bias"));
  EXPECT_THAT(plan().report.unexpected, ElementsAre("stem.weight"));
}

TEST_F(LoadPlanTest, ConvertsFloatsIntoFloatsAlone) {
  has("body.weight", {3, 2}, DType::kF16);
  EXPECT_EQ(refusal(), "accepted");
  has("body.batches", {}, DType::kF32);
  EXPECT_THAT(refusal(), HasSubstr("'body.batches' is F32 [] in the file"));
}

TEST_F(LoadPlanTest, RefusesTwoTensorsOfOneName) {
  has("fc.bias", {10});
  has("module.fc.bias", {10});
  EXPECT_EQ(refusal(), "the file has two tensors 'fc.bias'");
}

TEST_F(LoadPlanTest, RefusesAFileOfWhichNothingFits) {
  EXPECT_THAT(refusal(), HasSubstr("none of the file's 0 tensors"));
  has("layer1.0.conv1.weight", {64});
  EXPECT_THAT(refusal(), HasSubstr("none of the file's 1 tensors"));
}

TEST(LoadReport, IsToldInOneLine) {
  LoadReport report;
  EXPECT_EQ(summary_of(report, 5), "all 5 tensors");
  report.reshaped = {"fc.weight", "fc.bias"};
  EXPECT_EQ(summary_of(report, 5), "3 of 5 tensors; of another shape: fc.weight, fc.bias");
  report.unexpected = {"a", "b", "c", "d", "e", "f"};
  EXPECT_EQ(
      summary_of(report, 5),
      "3 of 5 tensors; of another shape: fc.weight, fc.bias; not in the model: a, b, c, d and 2 "
      "more");
}

}  // namespace
}  // namespace ddprun
