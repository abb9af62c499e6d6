#include "trainer/core/python_checkpoint.hpp"

#include "base/check.hpp"
#include "trainer/core/state_dict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

struct StyleName {
  CheckpointStyle style;
  std::string_view name;
};
constexpr std::array<StyleName, 8> kStyles = {{
    {.style = CheckpointStyle::kDdprun, .name = "ddprun"},
    {.style = CheckpointStyle::kMila, .name = "mila"},
    {.style = CheckpointStyle::kMilaCifar, .name = "mila-cifar"},
    {.style = CheckpointStyle::kCrusoe, .name = "crusoe"},
    {.style = CheckpointStyle::kOpenAcc, .name = "openacc"},
    {.style = CheckpointStyle::kOpenAccWeights, .name = "openacc-weights"},
    {.style = CheckpointStyle::kSnapshot, .name = "snapshot"},
    {.style = CheckpointStyle::kImagenet, .name = "imagenet"},
}};

// The file name in the examples; a flag changes it.
constexpr char kOpenAccFile[] = "resnet_distributed.pth";

PyValue none() {
  return {.kind = PyNone{}};
}

PyValue number(std::int64_t value) {
  return {.kind = value};
}

PyValue real(double value) {
  return {.kind = value};
}

PyValue flag(bool value) {
  return {.kind = value};
}

PyValue pair(double first, double second) {
  return {.kind = PyTuple{{real(first), real(second)}}};
}

PyDict dict_of(std::vector<std::pair<std::string, PyValue>> entries) {
  PyDict dict;
  for (auto& [key, value] : entries) {
    dict.add(std::move(key), std::move(value));
  }
  return dict;
}

PyDict adam_defaults(double weight_decay, bool decoupled) {
  return dict_of(
      {{"lr", real(1e-3)},
       {"betas", pair(0.9, 0.999)},
       {"eps", real(1e-8)},
       {"weight_decay", real(weight_decay)},
       {"amsgrad", flag(false)},
       {"maximize", flag(false)},
       {"foreach", none()},
       {"capturable", flag(false)},
       {"differentiable", flag(false)},
       {"fused", none()},
       {"decoupled_weight_decay", flag(decoupled)}});
}

/// Defaults of torch 2.11; none for an unknown kind.
std::optional<PyDict> defaults_of(std::string_view kind) {
  if (kind == "adam") return adam_defaults(0, false);
  if (kind == "adamw") return adam_defaults(1e-2, true);
  if (kind == "sgd") {
    return dict_of(
        {{"lr", real(1e-3)},
         {"momentum", real(0)},
         {"dampening", real(0)},
         {"weight_decay", real(0)},
         {"nesterov", flag(false)},
         {"maximize", flag(false)},
         {"foreach", none()},
         {"differentiable", flag(false)},
         {"fused", none()}});
  }
  if (kind == "adadelta") {
    return dict_of(
        {{"lr", real(1)},
         {"rho", real(0.9)},
         {"eps", real(1e-6)},
         {"weight_decay", real(0)},
         {"maximize", flag(false)},
         {"capturable", flag(false)},
         {"foreach", none()},
         {"differentiable", flag(false)}});
  }
  if (kind == "rmsprop") {
    return dict_of(
        {{"lr", real(1e-2)},
         {"momentum", real(0)},
         {"alpha", real(0.99)},
         {"eps", real(1e-8)},
         {"centered", flag(false)},
         {"weight_decay", real(0)},
         {"capturable", flag(false)},
         {"foreach", none()},
         {"maximize", flag(false)},
         {"differentiable", flag(false)}});
  }
  if (kind == "adagrad") {
    return dict_of(
        {{"lr", real(1e-2)},
         {"lr_decay", real(0)},
         {"eps", real(1e-10)},
         {"weight_decay", real(0)},
         {"initial_accumulator_value", real(0)},
         {"foreach", none()},
         {"maximize", flag(false)},
         {"differentiable", flag(false)},
         {"fused", none()}});
  }
  return std::nullopt;
}

/// The generator of rank 0: those files have room for only one.
PyValue generator_of(const SnapshotState& state) {
  const auto& rng = state.ranks.front().rng;
  return {
      .kind =
          TensorView{.name = {}, .dtype = DType::kU8, .shape = {std::ssize(rng)}, .bytes = rng}};
}

PyDict layout_of(
    CheckpointStyle style,
    const SnapshotState& state,
    const CheckpointFacts& facts,
    PyValue optimizer) {
  const PyValue weights{.kind = to_dict(state.model)};
  const PyValue wrapped{.kind = to_dict(state.model, kWrapperPrefix)};
  const PyValue finished = number(facts.finished_epoch);
  const PyValue next = number(facts.finished_epoch + 1);
  switch (style) {
    case CheckpointStyle::kDdprun:
      return dict_of(
          {{"model", weights},
           {"optimizer", std::move(optimizer)},
           {"epoch", number(state.epoch)},
           {"step", number(state.step)}});
    case CheckpointStyle::kMila:  // resumes with `epoch` itself
      return dict_of(
          {{"model", weights},
           {"optimizer", std::move(optimizer)},
           {"epoch", next},
           {"step", number(state.step)},
           {"num_samples", number(facts.samples)},
           {"python_rng_state", none()},
           {"numpy_rng_state", none()},
           {"torch_rng_state_cpu", generator_of(state)},
           {"torch_rng_state_gpu", {.kind = PyList{}}}});
    case CheckpointStyle::kMilaCifar:  // resumes with the epoch after `epoch`
      return dict_of(
          {{"epoch", finished},
           {"best_acc", real(facts.best_accuracy / 100)},
           {"model_state", weights},
           {"optimizer_state", std::move(optimizer)},
           {"random_state", none()},
           {"numpy_random_state", none()},
           {"torch_random_state", generator_of(state)},
           {"torch_cuda_random_state", {.kind = PyList{}}}});
    case CheckpointStyle::kCrusoe:
      return dict_of(
          {{"epoch", finished},
           {"model_state_dict", weights},
           {"optimizer_state_dict", std::move(optimizer)}});
    case CheckpointStyle::kOpenAcc:
      return dict_of(
          {{"epoch", finished},
           {"model_state", wrapped},
           {"loss", real(facts.loss)},
           {"optim_state", std::move(optimizer)}});
    case CheckpointStyle::kOpenAccWeights:
      return to_dict(state.model, kWrapperPrefix);
    case CheckpointStyle::kSnapshot:  // resumes with EPOCHS_RUN itself
      return dict_of({{"MODEL_STATE", weights}, {"EPOCHS_RUN", next}});
    case CheckpointStyle::kImagenet:  // resumes with `epoch` itself
      return dict_of(
          {{"epoch", next},
           {"arch", {.kind = facts.model}},
           {"state_dict", wrapped},
           {"best_acc1", real(facts.best_accuracy)},
           {"optimizer", std::move(optimizer)},
           {"scheduler", {.kind = facts.schedule}}});
  }
  return {};
}

}  // namespace

std::vector<std::string> checkpoint_style_names() {
  std::vector<std::string> names;
  names.reserve(kStyles.size());
  for (const StyleName& style : kStyles) {
    names.emplace_back(style.name);
  }
  return names;
}

std::string_view name_of(CheckpointStyle style) {
  return std::ranges::find(kStyles, style, &StyleName::style)->name;
}

std::optional<CheckpointStyle> checkpoint_style_of(std::string_view name) {
  const auto* const found = std::ranges::find(kStyles, name, &StyleName::name);
  return found == kStyles.end() ? std::nullopt : std::optional(found->style);
}

Result<PyDict> optimizer_group(std::string_view kind, const PyDict& settings) {
  auto group = defaults_of(kind);
  if (!group) {
    return make_error(Errc::kInvalidArgument, fmt::format("unknown optimizer '{}'", kind));
  }
  for (const auto& [key, value] : settings.entries) {
    const auto known = std::ranges::find(group->entries, key, &PyEntry::key);
    if (known == group->entries.end()) {
      return make_error(
          Errc::kInvalidArgument, fmt::format("'{}' has no setting {}", kind, to_text(key)));
    }
    known->value = value;
  }
  return *std::move(group);
}

std::string_view optimizer_kind_of(const std::vector<TensorView>& tensors) {
  struct Sign {
    std::string_view key;
    std::string_view kind;
  };
  constexpr std::array<Sign, 5> kSigns = {{
      {.key = "momentum_buffer", .kind = "sgd"},
      {.key = "exp_avg", .kind = "adamw"},
      {.key = "acc_delta", .kind = "adadelta"},
      {.key = "square_avg", .kind = "rmsprop"},
      {.key = "sum", .kind = "adagrad"},
  }};
  std::string_view found = "sgd";
  std::size_t best = kSigns.size();
  for (const TensorView& tensor : tensors) {
    // Adadelta has a square_avg, and RMSprop a momentum_buffer, so all tensors are considered.
    for (std::size_t i = 0; i < kSigns.size(); ++i) {
      const std::string_view key = kSigns[i].key;
      const std::string_view name = tensor.name;
      const bool has = name.ends_with(key) || name.starts_with(key);
      const bool is_better = best == kSigns.size() || kSigns[best].key == "momentum_buffer" ||
                             (kSigns[best].key == "square_avg" && key == "acc_delta");
      if (!has || !is_better) continue;
      found = kSigns[i].kind;
      best = i;
    }
  }
  return found;
}

std::string checkpoint_file_name(CheckpointStyle style, std::int64_t finished_epoch, int rank) {
  switch (style) {
    case CheckpointStyle::kDdprun:
    case CheckpointStyle::kMila:  // epoch_0.pt is the state before the first epoch
      return fmt::format("epoch_{}.pt", finished_epoch + 1);
    case CheckpointStyle::kMilaCifar:
      return "checkpoint.pth";
    case CheckpointStyle::kCrusoe:
      return fmt::format("checkpoint_epoch_{}.pt", finished_epoch);
    case CheckpointStyle::kOpenAcc:
      return fmt::format("model{}.pt", rank);
    case CheckpointStyle::kOpenAccWeights:
      return kOpenAccFile;
    case CheckpointStyle::kSnapshot:
      return "snapshot.pt";
    case CheckpointStyle::kImagenet:
      return "checkpoint.pth.tar";
  }
  return {};
}

Result<PyValue> checkpoint_value(
    CheckpointStyle style, const SnapshotState& state, const CheckpointFacts& facts) {
  DDPRUN_CHECK(!state.ranks.empty());
  const bool has_optimizer =
      style != CheckpointStyle::kOpenAccWeights && style != CheckpointStyle::kSnapshot;
  if (!has_optimizer) return PyValue{.kind = layout_of(style, state, facts, none())};
  if (state.parameters.empty()) {
    return make_error(
        Errc::kInvalidArgument,
        "the snapshot does not have the order of its parameters, by which Python numbers the "
        "optimizer's state; only its weights can be exported");
  }
  auto optimizer = write_optimizer(state.optimizer, state.parameters, facts.group);
  if (!optimizer) return optimizer.error();
  return PyValue{.kind = layout_of(style, state, facts, *std::move(optimizer))};
}

}  // namespace ddprun
