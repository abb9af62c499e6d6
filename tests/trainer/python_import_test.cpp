#include "trainer/core/python_import.hpp"

#include "tests/support/training_state.hpp"
#include "trainer/core/python_checkpoint.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A net of one layer with batch normalisation, after so many steps of SGD.
class Import : public testing::Test {
 protected:
  static TensorView view(const std::string& name, std::span<const float> values, DType dtype) {
    const auto bytes = std::as_bytes(values);
    const auto elements = static_cast<std::int64_t>(bytes.size() / size_of(dtype));
    return {.name = name, .dtype = dtype, .shape = {elements}, .bytes = bytes};
  }

  /// state_dict() as in Python: of each module its parameters, then its buffers.
  PyDict weights() const {
    return to_dict(
        {view("fc.weight", weight_, DType::kF32),
         view("fc.bias", bias_, DType::kF32),
         view("bn.weight", bias_, DType::kF32),
         view("bn.running_mean", bias_, DType::kF32),
         view("bn.num_batches_tracked", weight_, DType::kI64)});
  }

  PyDict optimizer(std::string_view kind, const char* key) const {
    const std::vector<TensorView> kept = {
        view(std::string("fc.weight.") + key, weight_, DType::kF32),
        view(std::string("fc.bias.") + key, bias_, DType::kF32),
        view(std::string("bn.weight.") + key, bias_, DType::kF32)};
    const auto dict =
        write_optimizer(kept, {"fc.weight", "fc.bias", "bn.weight"}, *optimizer_group(kind, {}));
    EXPECT_TRUE(dict) << dict.error().detail;
    return *dict->get_if<PyDict>();
  }

  /// A dict with some of: model, optimizer, and numbers.
  static PyValue file(std::vector<std::pair<std::string, PyValue>> entries) {
    PyDict root;
    for (auto& [key, value] : entries) {
      root.add(key, std::move(value));
    }
    return {.kind = std::move(root)};
  }

  static Result<ImportedState> read_back(const PyValue& root, const ImportWishes& wishes = {}) {
    const auto found = find_state_dict(root);
    if (!found) return found.error();
    return import_checkpoint(root, *found, "a.pt", wishes);
  }

  static std::string refusal(const PyValue& root, const ImportWishes& wishes = {}) {
    const auto imported = read_back(root, wishes);
    if (imported) return "accepted";
    EXPECT_TRUE(imported.error().is(Errc::kCorrupt));
    return imported.error().detail;
  }

  static std::vector<std::string> names_of(const std::vector<TensorView>& tensors) {
    std::vector<std::string> names;
    names.reserve(tensors.size());
    for (const TensorView& tensor : tensors) {
      names.push_back(tensor.name);
    }
    return names;
  }

  std::array<float, 6> weight_ = {1, 2, 3, 4, 5, 6};
  std::array<float, 2> bias_ = {7, 8};
};

TEST_F(Import, TakesWeightsOptimizerAndPosition) {
  const auto imported = read_back(file(
      {{"model", {.kind = weights()}},
       {"optimizer", {.kind = optimizer("sgd", "momentum_buffer")}},
       {"epoch", {.kind = std::int64_t{3}}},
       {"step", {.kind = std::int64_t{60}}}}));
  ASSERT_TRUE(imported) << imported.error().detail;
  const SnapshotState& state = imported->state;
  EXPECT_EQ(state.epoch, 3);
  EXPECT_EQ(state.step, 60);
  EXPECT_EQ(state.model.size(), 5U);
  EXPECT_THAT(state.parameters, ElementsAre("fc.weight", "fc.bias", "bn.weight"));
  EXPECT_THAT(
      names_of(state.optimizer),
      ElementsAre(
          "fc.weight.momentum_buffer", "fc.bias.momentum_buffer", "bn.weight.momentum_buffer"));
  EXPECT_EQ(state.arguments.at(kImportedFrom), "a.pt");
  EXPECT_EQ(state.arguments.at("--optimizer"), "sgd");
  EXPECT_EQ(state.arguments.at("--learning-rate"), "0.001");
  ASSERT_EQ(state.ranks.size(), 1U);
  EXPECT_THAT(imported->notes, ElementsAre(HasSubstr("generator")));
}

TEST_F(Import, ResumesAfterTheEpochThatIsDone) {
  const PyValue three{.kind = std::int64_t{3}};
  const ImportWishes steps{.step = 60};
  const auto epoch_of = [&](const PyValue& root) {
    const auto imported = read_back(root, steps);
    return imported ? imported->state.epoch : -1;
  };
  EXPECT_EQ(epoch_of(file({{"model_state_dict", {.kind = weights()}}, {"epoch", three}})), 4);
  EXPECT_EQ(epoch_of(file({{"model_state", {.kind = weights()}}, {"epoch", three}})), 4);
  EXPECT_EQ(epoch_of(file({{"state_dict", {.kind = weights()}}, {"epoch", three}})), 3);
  EXPECT_EQ(epoch_of(file({{"MODEL_STATE", {.kind = weights()}}, {"EPOCHS_RUN", three}})), 3);
  EXPECT_EQ(
      read_back(
          file({{"model_state", {.kind = weights()}}, {"epoch", three}}), {.epoch = 9, .step = 1})
          ->state.epoch,
      9);
}

TEST_F(Import, SaysThatThereAreWeightsAlone) {
  const auto bare = read_back({.kind = weights()});
  ASSERT_TRUE(bare) << bare.error().detail;
  EXPECT_EQ(bare->state.epoch, 0);
  EXPECT_EQ(bare->state.step, 0);
  EXPECT_THAT(bare->notes, testing::Contains(HasSubstr("only the weights")));
  const auto chosen = read_back(
      file(
          {{"model", {.kind = weights()}},
           {"optimizer", {.kind = optimizer("sgd", "momentum_buffer")}}}),
      {.weights_only = true});
  ASSERT_TRUE(chosen) << chosen.error().detail;
  EXPECT_TRUE(chosen->state.optimizer.empty());
  EXPECT_FALSE(chosen->state.arguments.contains("--optimizer"));
}

TEST_F(Import, CountsStepsByTheOptimizerWhereTheFileDoesNot) {
  const float steps = 40;
  const std::vector<TensorView> kept = {
      {.name = "fc.weight.step",
       .dtype = DType::kF32,
       .shape = {},
       .bytes = std::as_bytes(std::span(&steps, 1))},
      view("fc.weight.exp_avg", weight_, DType::kF32)};
  const auto dict =
      write_optimizer(kept, {"fc.weight", "fc.bias", "bn.weight"}, *optimizer_group("adamw", {}));
  const auto imported = read_back(file(
      {{"model", {.kind = weights()}},
       {"optimizer", *dict},
       {"epoch", {.kind = std::int64_t{2}}}}));
  ASSERT_TRUE(imported) << imported.error().detail;
  EXPECT_EQ(imported->state.step, 40);
  EXPECT_EQ(imported->state.arguments.at("--optimizer"), "adamw");
}

TEST_F(Import, AsksForThePositionThatIsMissing) {
  const PyValue sgd{.kind = optimizer("sgd", "momentum_buffer")};
  EXPECT_THAT(
      refusal(file({{"model", {.kind = weights()}}, {"optimizer", sgd}})),
      HasSubstr("give --epoch N"));
  EXPECT_THAT(
      refusal(file(
          {{"model", {.kind = weights()}},
           {"optimizer", sgd},
           {"epoch", {.kind = std::int64_t{2}}}})),
      HasSubstr("give --step N"));
  EXPECT_THAT(
      refusal(file({{"model", {.kind = weights()}}, {"epoch", {.kind = std::int64_t{-2}}}})),
      HasSubstr("'epoch' is -2"));
  EXPECT_THAT(
      refusal(file({{"model", {.kind = weights()}}, {"epoch", {.kind = std::string("two")}}})),
      HasSubstr("'epoch' is a str"));
}

TEST_F(Import, RefusesTensorsOfAnotherTypeByName) {
  EXPECT_THAT(
      refusal({.kind = to_dict({view("fc.weight", weight_, DType::kBF16)})}),
      HasSubstr("'fc.weight' is BF16, but ddptrain needs F32; convert it in Python with "
                ".to(torch.float32)"));
}

TEST_F(Import, RefusesAnOptimizerOfAnotherModel) {
  PyDict fewer = to_dict({view("fc.weight", weight_, DType::kF32)});
  const PyValue sgd{.kind = optimizer("sgd", "momentum_buffer")};
  EXPECT_THAT(
      refusal(file({{"model", {.kind = fewer}}, {"optimizer", sgd}})),
      HasSubstr("has 3 parameters, but the model has 1; --weights-only"));
  const PyDict other = to_dict(
      {view("fc.bias", bias_, DType::kF32),
       view("fc.weight", weight_, DType::kF32),
       view("bn.weight", bias_, DType::kF32)});
  EXPECT_THAT(
      refusal(file({{"model", {.kind = other}}, {"optimizer", sgd}})),
      HasSubstr("'fc.bias.momentum_buffer' of the optimizer has another shape"));
}

TEST_F(Import, RefusesAnOptimizerOfSeveralGroups) {
  PyDict dict;
  PyDict group;
  group.add("params", {.kind = PyList{{{.kind = std::int64_t{0}}}}});
  PyDict rest;
  rest.add("params", {.kind = PyList{{{.kind = std::int64_t{1}}, {.kind = std::int64_t{2}}}}});
  dict.add("state", {.kind = PyDict{}});
  dict.add("param_groups", {.kind = PyList{{{.kind = group}, {.kind = rest}}}});
  EXPECT_THAT(
      refusal(file({{"model", {.kind = weights()}}, {"optimizer", {.kind = dict}}})),
      HasSubstr("2 groups of parameters, but ddptrain's has one"));
}

TEST_F(Import, KnowsTheBestAndTheArchitectureOfImagenet) {
  const auto imported = read_back(
      file(
          {{"state_dict", {.kind = weights()}},
           {"arch", {.kind = std::string("resnet18")}},
           {"epoch", {.kind = std::int64_t{5}}},
           {"best_acc1", {.kind = 71.5}}}),
      {.step = 100});
  ASSERT_TRUE(imported) << imported.error().detail;
  EXPECT_EQ(imported->state.arguments.at("--model"), "resnet18");
  ASSERT_TRUE(imported->state.best);
  EXPECT_EQ(imported->state.best->value, 71.5);
}

TEST_F(Import, IsTheWayBackFromEveryLayoutWithAnOptimizer) {
  const TrainingState training(50, 4096);
  SnapshotState saved = training.state();
  // As in Python: parameters in order, followed by what is not a parameter.
  std::vector<TensorView> model;
  model.reserve(saved.model.size());
  for (const std::string& name : saved.parameters) {
    model.push_back(*std::ranges::find(saved.model, name, &TensorView::name));
  }
  saved.model = model;
  for (TensorView& tensor : saved.optimizer) {
    tensor.name += "_buffer";
  }
  CheckpointFacts facts;
  facts.finished_epoch = 4;
  facts.samples = 1280;
  facts.model = "resnet18";
  facts.group = *optimizer_group("sgd", {});
  for (const std::string& name : checkpoint_style_names()) {
    const auto style = *checkpoint_style_of(name);
    const auto value = checkpoint_value(style, saved, facts);
    ASSERT_TRUE(value) << name;
    const auto imported = read_back(*value, {.step = 50});
    ASSERT_TRUE(imported) << name << ": " << imported.error().detail;
    const bool has_epoch = style != CheckpointStyle::kOpenAccWeights;
    EXPECT_EQ(imported->state.epoch, has_epoch ? 5 : 0) << name;
    EXPECT_EQ(names_of(imported->state.model), names_of(saved.model)) << name;
    if (imported->state.optimizer.empty()) continue;
    EXPECT_EQ(imported->state.parameters, saved.parameters) << name;
    EXPECT_EQ(imported->state.optimizer.size(), saved.optimizer.size()) << name;
  }
  const auto mila = checkpoint_value(CheckpointStyle::kMila, saved, facts);
  const auto back = read_back(*mila);
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(back->state.step, 50);
  EXPECT_EQ(back->state.ranks[0].rng, saved.ranks[0].rng);
  EXPECT_EQ(back->state.ranks[0].sums.at(kSamplesOfRun), 1280);
}

}  // namespace
}  // namespace ddprun
