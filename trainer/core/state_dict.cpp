#include "trainer/core/state_dict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 6> kModelKeys = {
    "model", "model_state_dict", "model_state", "state_dict", "net", "MODEL_STATE"};
constexpr std::array<std::string_view, 5> kOptimizerKeys = {
    "optimizer", "optimizer_state_dict", "optimizer_state", "optim_state", "OPTIMIZER_STATE"};

Error invalid(std::string detail) {
  return make_error(Errc::kInvalidArgument, std::move(detail));
}

/// The tensors of a dict, named by its keys. Fails if it contains anything else.
Result<std::vector<TensorView>> tensors_of(const PyDict& dict) {
  std::vector<TensorView> tensors;
  for (const auto& [key, value] : dict.entries) {
    const auto* const name = std::get_if<std::string>(&key);
    const auto* const tensor = value.get_if<TensorView>();
    if (name == nullptr || tensor == nullptr) {
      return invalid(fmt::format("{} is a {}, not a tensor", to_text(key), type_name(value)));
    }
    tensors.push_back(*tensor);
    tensors.back().name = *name;
  }
  return tensors;
}

bool holds_tensors_alone(const PyDict& dict) {
  return std::ranges::all_of(dict.entries, [](const PyEntry& entry) {
    return std::holds_alternative<std::string>(entry.key) &&
           entry.value.get_if<TensorView>() != nullptr;
  });
}

std::string keys_of(const PyDict& dict) {
  constexpr std::size_t kShownMax = 12;
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.entries) {
    if (keys.size() == kShownMax) {
      keys.emplace_back("...");
      break;
    }
    keys.push_back(to_text(key));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

template <std::size_t N>
const PyValue* find_first(
    const PyDict& dict, const std::array<std::string_view, N>& keys, std::string_view* found) {
  for (const std::string_view key : keys) {
    const PyValue* const value = dict.find(key);
    if (value == nullptr) continue;
    if (found != nullptr) *found = key;
    return value;
  }
  return nullptr;
}

/// The name of a numbered parameter. Fails beyond the list.
Result<std::string> name_at(const std::vector<std::string>& parameters, std::int64_t index) {
  if (index >= 0 && std::cmp_less(index, parameters.size())) {
    return parameters[static_cast<std::size_t>(index)];
  }
  return invalid(fmt::format(
      "the optimizer's state has a parameter {}, but the model has {}", index, parameters.size()));
}

/// A number as the scalar tensor that newer versions of torch use instead.
TensorView scalar_of(double number, std::vector<std::vector<std::byte>>& numbers) {
  const auto value = static_cast<float>(number);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  numbers.emplace_back(bytes.begin(), bytes.end());
  return {.name = {}, .dtype = DType::kF32, .shape = {}, .bytes = numbers.back()};
}

Result<void> read_one(const std::string& parameter, const PyDict& state, OptimizerState& to) {
  for (const auto& [key, value] : state.entries) {
    const auto* const name = std::get_if<std::string>(&key);
    if (name == nullptr) return invalid(fmt::format("'{}' has an unnamed state", parameter));
    if (value.get_if<PyNone>() != nullptr) continue;  // not started, such as the first momentum
    TensorView tensor;
    if (const auto* const view = value.get_if<TensorView>()) {
      tensor = *view;
    } else if (const auto* const whole = value.get_if<std::int64_t>()) {
      tensor = scalar_of(static_cast<double>(*whole), to.numbers);
    } else if (const auto* const number = value.get_if<double>()) {
      tensor = scalar_of(*number, to.numbers);
    } else {
      return invalid(fmt::format("'{}.{}' is a {}", parameter, *name, type_name(value)));
    }
    tensor.name = fmt::format("{}.{}", parameter, *name);
    to.tensors.push_back(std::move(tensor));
  }
  return {};
}

/// The number of parameters of a group; adds its settings without them.
Result<std::size_t> read_group(const PyValue& value, OptimizerState& to) {
  const auto* const group = value.get_if<PyDict>();
  const PyValue* const listed = group == nullptr ? nullptr : group->find("params");
  const auto* const params = listed == nullptr ? nullptr : listed->get_if<PyList>();
  if (params == nullptr) return invalid("a group of the optimizer has no list 'params'");
  PyDict settings;
  for (const auto& [key, setting] : group->entries) {
    if (key != PyKey("params")) settings.add(key, setting);
  }
  to.groups.push_back(std::move(settings));
  return params->items.size();
}

/// Parameter and key of an optimizer's tensor.
struct Place {
  std::size_t parameter = 0;
  std::string key;
};

std::optional<Place> place_of(
    std::string_view name, const std::map<std::string_view, std::size_t>& parameters) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const std::string_view front = name.substr(0, dot);
    const std::string_view back = name.substr(dot + 1);
    if (const auto found = parameters.find(back); found != parameters.end()) {
      return Place{.parameter = found->second, .key = std::string(front)};
    }
    const auto found = parameters.find(front);
    if (found != parameters.end() && back.find('.') == std::string_view::npos) {
      return Place{.parameter = found->second, .key = std::string(back)};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<StateDict> find_state_dict(const PyValue& root) {
  const auto* const dict = root.get_if<PyDict>();
  if (dict == nullptr) {
    return invalid(fmt::format("it contains a {}, not a dict of weights", type_name(root)));
  }
  std::string_view place;
  const PyValue* const inner = find_first(*dict, kModelKeys, &place);
  const bool is_inner = inner != nullptr && inner->get_if<PyDict>() != nullptr;
  if (!is_inner && (dict->entries.empty() || !holds_tensors_alone(*dict))) {
    return invalid(fmt::format(
        "no weights: neither only tensors nor a dict under {}; it has {}",
        fmt::join(kModelKeys, ", "),
        dict->entries.empty() ? "nothing" : keys_of(*dict)));
  }
  auto tensors = tensors_of(is_inner ? *inner->get_if<PyDict>() : *dict);
  if (!tensors) return is_inner ? with_context(place, tensors.error()) : tensors.error();
  StateDict found = state_dict_of(*std::move(tensors));
  if (is_inner) found.place = place;
  return found;
}

StateDict state_dict_of(std::vector<TensorView> tensors) {
  StateDict dict;
  dict.had_prefix = !tensors.empty() && std::ranges::all_of(tensors, [](const TensorView& tensor) {
    return tensor.name.starts_with(kWrapperPrefix);
  });
  dict.tensors = std::move(tensors);
  if (!dict.had_prefix) return dict;
  for (TensorView& tensor : dict.tensors) {
    tensor.name.erase(0, kWrapperPrefix.size());
  }
  return dict;
}

PyDict to_dict(const std::vector<TensorView>& tensors, std::string_view prefix) {
  PyDict dict;
  for (const TensorView& tensor : tensors) {
    dict.add(fmt::format("{}{}", prefix, tensor.name), {.kind = tensor});
  }
  return dict;
}

const PyValue* find_optimizer(const PyValue& root) {
  const auto* const dict = root.get_if<PyDict>();
  return dict == nullptr ? nullptr : find_first(*dict, kOptimizerKeys, nullptr);
}

Result<OptimizerState> read_optimizer(
    const PyValue& dict, const std::vector<std::string>& parameters) {
  const auto* const top = dict.get_if<PyDict>();
  const PyValue* const state = top == nullptr ? nullptr : top->find("state");
  const PyValue* const groups = top == nullptr ? nullptr : top->find("param_groups");
  const auto* const states = state == nullptr ? nullptr : state->get_if<PyDict>();
  const auto* const group_list = groups == nullptr ? nullptr : groups->get_if<PyList>();
  if (states == nullptr || group_list == nullptr) {
    return invalid("the optimizer's state is not a dict of 'state' and 'param_groups'");
  }
  OptimizerState read;
  std::size_t count = 0;
  for (const PyValue& group : group_list->items) {
    const auto size = read_group(group, read);
    if (!size) return size.error();
    count += *size;
  }
  if (count != parameters.size()) {
    return invalid(fmt::format(
        "the optimizer's state has {} parameters, but the model has {}", count, parameters.size()));
  }
  for (const auto& [key, value] : states->entries) {
    const auto* const index = std::get_if<std::int64_t>(&key);
    const auto* const one = value.get_if<PyDict>();
    if (index == nullptr || one == nullptr) {
      return invalid(fmt::format("the optimizer's state of {} has another form", to_text(key)));
    }
    const auto name = name_at(parameters, *index);
    if (!name) return name.error();
    auto const done = read_one(*name, *one, read);
    if (!done) return done.error();
  }
  return read;
}

Result<PyValue> write_optimizer(
    const std::vector<TensorView>& tensors,
    const std::vector<std::string>& parameters,
    const PyDict& group) {
  std::map<std::string_view, std::size_t> indices;
  PyList numbers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    indices.emplace(parameters[i], i);
    numbers.items.push_back({.kind = static_cast<std::int64_t>(i)});
  }
  std::map<std::size_t, PyDict> states;
  for (const TensorView& tensor : tensors) {
    auto place = place_of(tensor.name, indices);
    if (!place) {
      return invalid(
          fmt::format("'{}' of the optimizer belongs to no parameter of the model", tensor.name));
    }
    states[place->parameter].add(std::move(place->key), {.kind = tensor});
  }
  PyDict state;
  for (auto& [index, one] : states) {
    state.add(static_cast<std::int64_t>(index), {.kind = std::move(one)});
  }
  PyDict with_params = group;
  with_params.add("params", {.kind = std::move(numbers)});
  PyDict dict;
  dict.add("state", {.kind = std::move(state)});
  dict.add("param_groups", {.kind = PyList{{{.kind = std::move(with_params)}}}});
  return PyValue{.kind = std::move(dict)};
}

}  // namespace ddprun
