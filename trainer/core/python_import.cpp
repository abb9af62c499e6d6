#include "trainer/core/python_import.hpp"

#include "trainer/core/corrupt.hpp"
#include "trainer/core/model_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::int64_t kCountMax = 1'000'000'000'000;  // epochs, steps, samples: beyond any run

/// Whether a tensor of a state dict is not a parameter: the statistics and counters of batch
/// normalisation, which have no gradient. The models here have no other buffers.
bool is_buffer(const TensorView& tensor) {
  const std::string_view name = tensor.name;
  return tensor.dtype == DType::kI64 || name.ends_with("running_mean") ||
         name.ends_with("running_var");
}

const PyValue* find(const PyValue& root, std::string_view key) {
  const auto* const dict = root.get_if<PyDict>();
  return dict == nullptr ? nullptr : dict->find(key);
}

/// The value of a float32 tensor with one element; none for other tensors.
std::optional<double> scalar_of(const TensorView& tensor) {
  if (tensor.dtype != DType::kF32 || tensor.bytes.size() != sizeof(float)) return std::nullopt;
  float number = 0;
  std::memcpy(&number, tensor.bytes.data(), sizeof number);
  return number;
}

/// A number, or a tensor with one element; none for everything else.
std::optional<double> number_of(const PyValue* value) {
  if (value == nullptr) return std::nullopt;
  if (const auto* const whole = value->get_if<std::int64_t>()) return static_cast<double>(*whole);
  if (const auto* const real = value->get_if<double>()) return *real;
  const auto* const tensor = value->get_if<TensorView>();
  return tensor == nullptr ? std::nullopt : scalar_of(*tensor);
}

/// A whole number of at least 0 under `key`; none if there is no such key.
Result<std::optional<std::int64_t>> count_at(const PyValue& root, std::string_view key) {
  const PyValue* const value = find(root, key);
  if (value == nullptr || value->get_if<PyNone>() != nullptr) return std::optional<std::int64_t>();
  const auto number = number_of(value);
  if (number && *number >= 0 && *number <= kCountMax && *number == std::floor(*number)) {
    return std::optional(static_cast<std::int64_t>(*number));
  }
  return corrupt(fmt::format(
      "'{}' is {}, not a whole number of at least 0",
      key,
      number ? fmt::format("{}", *number) : fmt::format("a {}", type_name(*value))));
}

Result<void> check_types(const std::vector<TensorView>& tensors) {
  for (const TensorView& tensor : tensors) {
    if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kI64) continue;
    return corrupt(fmt::format(
        "tensor '{}' is {}, but ddptrain needs F32; convert it in Python with .to(torch.float32)",
        tensor.name,
        name_of(tensor.dtype)));
  }
  return {};
}

/// Names must be valid in safetensors, which reserves one, and in lines of its metadata.
Result<void> check_names(const std::vector<TensorView>& tensors) {
  const auto is_plain = [](char byte) { return byte > ' ' && byte <= '~'; };
  std::set<std::string_view> seen = {"__metadata__"};
  for (const TensorView& tensor : tensors) {
    if (!std::ranges::all_of(tensor.name, is_plain)) {
      return corrupt(
          "the name of a tensor has characters other than printable ASCII; rename it in Python");
    }
    if (seen.insert(tensor.name).second) continue;
    return corrupt(fmt::format(
        "the tensor name '{}' occurs twice or is reserved; rename it in Python", tensor.name));
  }
  return {};
}

/// Replaces characters that JSON cannot contain.
std::string plain_text(std::string text) {
  std::ranges::replace_if(
      text, [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return text;
}

/// Torch's optimizer with such settings in its groups; empty if several have them.
std::string kind_of(const PyDict& group) {
  const auto has = [&group](std::string_view key) { return group.find(key) != nullptr; };
  if (has("betas")) {
    const PyValue* const decoupled = group.find("decoupled_weight_decay");
    const auto* const is_adamw = decoupled == nullptr ? nullptr : decoupled->get_if<bool>();
    if (is_adamw == nullptr) return {};  // torch before 2.7 does not distinguish Adam and AdamW
    return *is_adamw ? "adamw" : "adam";
  }
  if (has("dampening")) return "sgd";
  if (has("rho")) return "adadelta";
  if (has("alpha")) return "rmsprop";
  if (has("lr_decay")) return "adagrad";
  return {};
}

void add_settings(const PyDict& group, std::map<std::string, std::string>& arguments) {
  struct Setting {
    const char* name;  // in Python
    const char* flag;  // of ddptrain
  };
  constexpr std::array<Setting, 3> kSettings = {{
      {.name = "lr", .flag = "--learning-rate"},
      {.name = "momentum", .flag = "--momentum"},
      {.name = "weight_decay", .flag = "--weight-decay"},
  }};
  const std::string kind = kind_of(group);
  if (!kind.empty()) arguments["--optimizer"] = kind;
  for (const Setting& setting : kSettings) {
    const auto value = number_of(group.find(setting.name));
    if (value) arguments[setting.flag] = fmt::format("{}", *value);
  }
}

Result<void> check_shapes(
    const std::vector<TensorView>& kept, const std::vector<TensorView>& weights) {
  for (const TensorView& tensor : kept) {
    const std::size_t dot = tensor.name.rfind('.');
    const auto parameter =
        std::ranges::find(weights, tensor.name.substr(0, dot), &TensorView::name);
    const bool fits = parameter != weights.end() && parameter->shape == tensor.shape;
    if (fits || (tensor.shape.empty() && tensor.name.ends_with(".step"))) continue;
    return corrupt(fmt::format(
        "'{}' of the optimizer has another shape than its parameter, so it is numbered differently "
        "from the weights; --weights-only leaves it out",
        tensor.name));
  }
  return {};
}

/// Adds the optimizer's state, if there is one.
Result<void> add_optimizer(
    const PyValue* dict, const StateDict& weights, const ImportWishes& wishes, ImportedState& to) {
  if (wishes.weights_only || dict == nullptr) {
    to.notes.emplace_back(
        dict == nullptr ? "it has no optimizer state: only the weights are imported"
                        : "the optimizer's state is left out: only the weights are imported");
    return {};
  }
  std::vector<std::string> parameters;
  for (const TensorView& tensor : weights.tensors) {
    if (!is_buffer(tensor)) parameters.push_back(tensor.name);
  }
  auto read = read_optimizer(*dict, parameters);
  if (!read) return corrupt(read.error().detail + "; --weights-only leaves it out");
  if (read->groups.size() != 1) {
    return corrupt(fmt::format(
        "the optimizer has {} groups of parameters, but ddptrain's has one; --weights-only leaves "
        "out its state",
        read->groups.size()));
  }
  auto done = check_types(read->tensors);
  if (done) done = check_names(read->tensors);
  if (done) done = check_shapes(read->tensors, weights.tensors);
  if (!done) return done;
  add_settings(read->groups.front(), to.state.arguments);
  to.state.parameters = std::move(parameters);
  to.state.optimizer = std::move(read->tensors);
  to.numbers = std::move(read->numbers);
  if (to.state.optimizer.empty()) to.notes.emplace_back("the optimizer has no state yet");
  return {};
}

/// The epoch to resume with. Programs that have `model_state…` save the completed epoch, the others
/// the next one.
Result<std::optional<std::int64_t>> next_epoch(const PyValue& root, const StateDict& weights) {
  const char* const key = find(root, "EPOCHS_RUN") == nullptr ? "epoch" : "EPOCHS_RUN";
  auto epoch = count_at(root, key);
  const bool is_done = weights.place == "model_state_dict" || weights.place == "model_state";
  if (!epoch || !is_done) return epoch;
  auto& number = *epoch;
  if (number) ++*number;
  return epoch;
}

/// The optimizer's count of updates; none if it does not count them.
std::optional<std::int64_t> steps_of(const std::vector<TensorView>& optimizer) {
  std::optional<std::int64_t> most;
  for (const TensorView& tensor : optimizer) {
    const auto steps = tensor.name.ends_with(".step") ? scalar_of(tensor) : std::nullopt;
    const bool is_count = steps && *steps >= 0 && *steps <= kCountMax;
    if (is_count) most = std::max(most.value_or(0), static_cast<std::int64_t>(*steps));
  }
  return most;
}

/// The position to resume from: given by a person, else from the file.
Result<void> add_position(
    const PyValue& root, const StateDict& weights, const ImportWishes& wishes, ImportedState& to) {
  const auto epoch = next_epoch(root, weights);
  if (!epoch) return epoch.error();
  const auto step = count_at(root, "step");
  if (!step) return step.error();
  const auto said_epoch = wishes.epoch ? wishes.epoch : *epoch;
  const bool has_trained = !to.state.optimizer.empty();
  if (!said_epoch && has_trained) {
    return corrupt("it has no epoch; give --epoch N, the epoch to resume with");
  }
  to.state.epoch = said_epoch.value_or(0);
  auto said_step = wishes.step ? wishes.step : *step;
  if (!said_step) said_step = steps_of(to.state.optimizer);
  if (!said_step && (to.state.epoch > 0 || has_trained)) {
    return corrupt("it has no step; give --step N, the number of updates so far");
  }
  to.state.step = said_step.value_or(0);
  return {};
}

/// The generator of rank 0, if the file has it, and the numbers that ddptrain keeps per rank.
Result<void> add_rank(const PyValue& root, ImportedState& to) {
  constexpr std::size_t kGeneratorBytes = 5056;  // of torch's generator on a CPU
  RankState& rank = to.state.ranks.emplace_back();
  for (const char* const key : {"torch_rng_state_cpu", "torch_random_state"}) {
    const PyValue* const value = find(root, key);
    const auto* const rng = value == nullptr ? nullptr : value->get_if<TensorView>();
    if (rng == nullptr) continue;
    if (rng->dtype != DType::kU8 || rng->bytes.size() != kGeneratorBytes) {
      return corrupt(fmt::format("'{}' is not a state of torch's generator", key));
    }
    rank.rng.assign(rng->bytes.begin(), rng->bytes.end());
  }
  if (rank.rng.empty()) {
    to.notes.emplace_back("it has no state of the generator: random numbers start from --seed");
  }
  const auto samples = count_at(root, "num_samples");
  if (!samples) return samples.error();
  if (*samples) rank.sums[kSamplesOfRun] = static_cast<double>(**samples);
  const PyValue* const scaler = find(root, "scaler");
  const auto* const scale = scaler == nullptr ? nullptr : scaler->get_if<PyDict>();
  if (scale == nullptr) return {};
  for (const auto& [key, value] : scale->entries) {
    const auto* const name = std::get_if<std::string>(&key);
    const auto number = number_of(&value);
    if (name != nullptr && number) rank.sums[kScalerPrefix + *name] = *number;
  }
  return {};
}

/// The best accuracy that the program saw; its weights are not in the file.
void add_best(const PyValue& root, ImportedState& to) {
  constexpr double kPercent = 100;
  auto accuracy = number_of(find(root, "best_acc1"));
  const auto share = number_of(find(root, "best_acc"));
  if (share) accuracy = *share * kPercent;
  if (!accuracy || !std::isfinite(*accuracy)) return;
  to.state.best = BestSoFar{
      .metric = BestMetric::kAccuracy,
      .value = *accuracy,
      .epoch = std::max<std::int64_t>(to.state.epoch - 1, 0),
      .snapshot = {}};
}

}  // namespace

Result<ImportedState> import_checkpoint(
    const PyValue& root,
    const StateDict& weights,
    const std::string& source,
    const ImportWishes& wishes) {
  ImportedState imported;
  SnapshotState& state = imported.state;
  state.arguments[kImportedFrom] = plain_text(source);
  // Other libraries use other names for models. The names of the tensors are more reliable.
  const PyValue* const arch = find(root, "arch");
  const auto* const model = arch == nullptr ? nullptr : arch->get_if<std::string>();
  const auto is_it = [model](ModelKind kind) { return *model == name_of(kind); };
  const bool is_ours = model != nullptr && std::ranges::any_of(all_model_kinds(), is_it);
  if (is_ours) state.arguments["--model"] = *model;
  state.model = weights.tensors;
  auto done = check_types(state.model);
  if (done) done = check_names(state.model);
  if (done) done = add_optimizer(find_optimizer(root), weights, wishes, imported);
  if (done) done = add_position(root, weights, wishes, imported);
  if (done) done = add_rank(root, imported);
  if (!done) return done.error();
  add_best(root, imported);
  return imported;
}

}  // namespace ddprun
