#include "trainer/core/python_checkpoint.hpp"

#include "tests/support/training_state.hpp"
#include "trainer/core/state_dict.hpp"
#include "trainer/core/tensor_diff.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> keys_of(const PyValue& value) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : value.get_if<PyDict>()->entries) {
    keys.push_back(std::get<std::string>(key));
  }
  return keys;
}

std::vector<std::string> names_of(const std::vector<TensorView>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const TensorView& tensor : tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

class Checkpoint : public testing::Test {
 protected:
  PyValue value(CheckpointStyle style) {
    CheckpointFacts facts;
    facts.finished_epoch = 4;
    facts.samples = 1280;
    facts.model = "resnet18";
    facts.group = *optimizer_group("sgd", {});
    auto made = checkpoint_value(style, training_.state(), facts);
    EXPECT_TRUE(made) << (made ? "" : made.error().detail);
    return made ? *std::move(made) : PyValue{};
  }

  static std::int64_t number(const PyValue& checkpoint, const char* key) {
    return *checkpoint.get_if<PyDict>()->find(key)->get_if<std::int64_t>();
  }

  TrainingState training_{50, 4096};
};

TEST_F(Checkpoint, HasTheKeysOfEachProgram) {
  using enum CheckpointStyle;
  EXPECT_THAT(keys_of(value(kDdprun)), ElementsAre("model", "optimizer", "epoch", "step"));
  EXPECT_THAT(
      keys_of(value(kMila)),
      ElementsAre(
          "model",
          "optimizer",
          "epoch",
          "step",
          "num_samples",
          "python_rng_state",
          "numpy_rng_state",
          "torch_rng_state_cpu",
          "torch_rng_state_gpu"));
  EXPECT_THAT(
      keys_of(value(kMilaCifar)),
      ElementsAre(
          "epoch",
          "best_acc",
          "model_state",
          "optimizer_state",
          "random_state",
          "numpy_random_state",
          "torch_random_state",
          "torch_cuda_random_state"));
  EXPECT_THAT(
      keys_of(value(kCrusoe)), ElementsAre("epoch", "model_state_dict", "optimizer_state_dict"));
  EXPECT_THAT(keys_of(value(kOpenAcc)), ElementsAre("epoch", "model_state", "loss", "optim_state"));
  EXPECT_THAT(keys_of(value(kSnapshot)), ElementsAre("MODEL_STATE", "EPOCHS_RUN"));
  EXPECT_THAT(
      keys_of(value(kImagenet)),
      ElementsAre("epoch", "arch", "state_dict", "best_acc1", "optimizer", "scheduler"));
}

TEST_F(Checkpoint, CountsEpochsAsItsProgramResumesFromThem) {
  EXPECT_EQ(number(value(CheckpointStyle::kMila), "epoch"), 5);
  EXPECT_EQ(number(value(CheckpointStyle::kMilaCifar), "epoch"), 4);
  EXPECT_EQ(number(value(CheckpointStyle::kSnapshot), "EPOCHS_RUN"), 5);
  EXPECT_EQ(checkpoint_file_name(CheckpointStyle::kMila, -1, 0), "epoch_0.pt");
  EXPECT_EQ(checkpoint_file_name(CheckpointStyle::kMila, 4, 0), "epoch_5.pt");
  EXPECT_EQ(checkpoint_file_name(CheckpointStyle::kCrusoe, 4, 0), "checkpoint_epoch_4.pt");
  EXPECT_EQ(checkpoint_file_name(CheckpointStyle::kOpenAcc, 4, 3), "model3.pt");
}

TEST_F(Checkpoint, HasWeightsThatAreFoundAgainInEveryStyle) {
  for (const std::string& name : checkpoint_style_names()) {
    const auto style = checkpoint_style_of(name);
    ASSERT_TRUE(style) << name;
    EXPECT_EQ(name_of(*style), name);
    const PyValue saved = value(*style);
    const auto found = find_state_dict(saved);
    ASSERT_TRUE(found) << name << ": " << found.error().detail;
    EXPECT_EQ(names_of(found->tensors), names_of(training_.state().model)) << name;
  }
  EXPECT_EQ(checkpoint_style_of("other"), std::nullopt);
}

TEST_F(Checkpoint, NumbersTheOptimizersStateByTheOrderOfParameters) {
  const PyValue saved = value(CheckpointStyle::kDdprun);
  const PyValue* const optimizer = find_optimizer(saved);
  ASSERT_NE(optimizer, nullptr);
  // In the file conv.weight comes first; the model has another order.
  const auto* const states = optimizer->get_if<PyDict>()->find("state")->get_if<PyDict>();
  EXPECT_EQ(
      states->find(0)->get_if<PyDict>()->find("momentum")->get_if<TensorView>()->name,
      "fc.weight.momentum");
  const auto again = read_optimizer(*optimizer, training_.state().parameters);
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_THAT(names_of(again->tensors), ElementsAre("fc.weight.momentum", "conv.weight.momentum"));
  ASSERT_EQ(again->groups.size(), 1U);
  EXPECT_EQ(again->groups[0].find("params"), nullptr);
  EXPECT_NE(again->groups[0].find("lr"), nullptr);
}

TEST_F(Checkpoint, RefusesAnOptimizerWhoseOrderNobodySaved) {
  SnapshotState state = training_.state();
  state.parameters.clear();
  const auto made = checkpoint_value(CheckpointStyle::kMila, state, {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().detail, HasSubstr("order of its parameters"));
  EXPECT_TRUE(checkpoint_value(CheckpointStyle::kSnapshot, state, {}));
}

TEST(OptimizerDict, RefusesAnotherModels) {
  PyDict group;
  group.add("params", {.kind = PyList{{{.kind = 0}, {.kind = 1}}}});
  PyDict dict;
  dict.add("state", {.kind = PyDict{}});
  dict.add("param_groups", {.kind = PyList{{{.kind = group}}}});
  EXPECT_TRUE(read_optimizer({.kind = dict}, {"a", "b"}));
  EXPECT_THAT(
      read_optimizer({.kind = dict}, {"a"}).error().detail,
      HasSubstr("has 2 parameters, but the model has 1"));
  EXPECT_FALSE(read_optimizer({.kind = 3}, {"a"}));
  const TensorView stray{
      .name = "c.momentum_buffer", .dtype = DType::kF32, .shape = {0}, .bytes = {}};
  EXPECT_THAT(write_optimizer({stray}, {"a"}, {}).error().detail, HasSubstr("'c.momentum_buffer'"));
}

TEST(OptimizerDict, TakesBothOrdersOfParameterAndKey) {
  const auto named = [](const char* name) {
    return TensorView{.name = name, .dtype = DType::kF32, .shape = {0}, .bytes = {}};
  };
  const auto dict =
      write_optimizer({named("momentum_buffer.a.b"), named("a.exp_avg")}, {"a", "a.b"}, {});
  ASSERT_TRUE(dict) << dict.error().detail;
  const auto* const states = dict->get_if<PyDict>()->find("state")->get_if<PyDict>();
  EXPECT_NE(states->find(1)->get_if<PyDict>()->find("momentum_buffer"), nullptr);
  EXPECT_NE(states->find(0)->get_if<PyDict>()->find("exp_avg"), nullptr);
}

TEST(OptimizerKind, FollowsFromWhatIsKept) {
  const auto kind = [](std::vector<std::string> names) {
    std::vector<TensorView> tensors;
    tensors.reserve(names.size());
    for (std::string& name : names) {
      tensors.push_back({.name = std::move(name), .dtype = DType::kF32, .shape = {}, .bytes = {}});
    }
    return optimizer_kind_of(tensors);
  };
  EXPECT_EQ(kind({}), "sgd");
  EXPECT_EQ(kind({"momentum_buffer.w"}), "sgd");
  EXPECT_EQ(kind({"w.exp_avg", "w.exp_avg_sq", "w.step"}), "adamw");
  EXPECT_EQ(kind({"w.acc_delta", "w.square_avg", "w.step"}), "adadelta");
  EXPECT_EQ(kind({"w.square_avg", "w.acc_delta"}), "adadelta");
  EXPECT_EQ(kind({"w.momentum_buffer", "w.square_avg"}), "rmsprop");
  EXPECT_EQ(kind({"w.step", "w.sum"}), "adagrad");
  EXPECT_FALSE(optimizer_group("lion", {}));
}

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype) {
  return {
      .name = {},
      .dtype = dtype,
      .shape = {std::ssize(values)},
      .bytes = std::as_bytes(std::span(values))};
}

TEST(TensorDiff, CountsBitsAndMeasuresValues) {
  const std::vector<float> a = {1, 2, 0.0F};
  const std::vector<float> b = {1, 2.5F, -0.0F};
  const TensorDiff diff = compare(view_of(a, DType::kF32), view_of(b, DType::kF32));
  EXPECT_EQ(diff.elements, 3U);
  EXPECT_EQ(diff.different, 2U);
  EXPECT_EQ(diff.largest, 0.5);
  EXPECT_TRUE(compare(view_of(a, DType::kF32), view_of(a, DType::kF32)).equal());
}

TEST(TensorDiff, KeepsANaN) {
  const std::vector<float> a = {std::nanf(""), 1};
  const std::vector<float> b = {1, 9};
  EXPECT_TRUE(std::isnan(compare(view_of(a, DType::kF32), view_of(b, DType::kF32)).largest));
  EXPECT_TRUE(compare(view_of(a, DType::kF32), view_of(a, DType::kF32)).equal());
}

TEST(TensorDiff, TellsLargeWholeNumbersApart) {
  const std::vector<std::int64_t> a = {(1LL << 60U) + 1, std::numeric_limits<std::int64_t>::min()};
  const std::vector<std::int64_t> b = {1LL << 60U, std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(compare(view_of(a, DType::kI64), view_of(b, DType::kI64)).largest, 1);
}

TEST(TensorDiff, KnowsTheValuesOfNarrowTypes) {
  const auto apart = [](unsigned bits, DType dtype) {
    const std::vector<std::uint16_t> words = {static_cast<std::uint16_t>(bits)};
    const std::vector<std::uint16_t> zero = {0};
    if (size_of(dtype) == 2) return compare(view_of(words, dtype), view_of(zero, dtype)).largest;
    const std::vector<std::uint8_t> byte = {static_cast<std::uint8_t>(bits)};
    const std::vector<std::uint8_t> none = {0};
    return compare(view_of(byte, dtype), view_of(none, dtype)).largest;
  };
  // From torch: torch.tensor([bits], dtype=...).view(...).double()
  EXPECT_EQ(apart(0x3c00, DType::kF16), 1);
  EXPECT_EQ(apart(0x0001, DType::kF16), 5.960464477539063e-08);
  EXPECT_EQ(apart(0xfbff, DType::kF16), 65504);
  EXPECT_EQ(apart(0x4049, DType::kBF16), 3.140625);
  EXPECT_EQ(apart(0x7e, DType::kF8E4M3), 448);
  EXPECT_EQ(apart(0x38, DType::kF8E4M3), 1);
  EXPECT_EQ(apart(0x01, DType::kF8E4M3), 0.001953125);
  EXPECT_EQ(apart(0x7b, DType::kF8E5M2), 57344);
  EXPECT_TRUE(std::isinf(apart(0x7c, DType::kF8E5M2)));
  EXPECT_TRUE(std::isnan(apart(0x7f, DType::kF8E4M3)));
}

}  // namespace
}  // namespace ddprun
