// The calls that a pickle may make: three that make a tensor, a dict and a size. Those of numpy are
// in pickle_arrays.cpp.

#include "trainer/core/corrupt.hpp"
#include "trainer/core/pickle_graph.hpp"
#include "trainer/core/pickle_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::pickle_graph {
namespace {

using namespace pickle_words;

Error bad_arguments(std::string_view function) {
  return corrupt(fmt::format("'{}' is called with wrong arguments", function));
}

/// Hooks and metadata, which a file of weights does not need.
bool is_empty(const Graph& graph, Id id) {
  const auto* const mapping = graph.get_if<Mapping>(id);
  if (mapping != nullptr) return mapping->entries.empty();
  return graph.get_if<PyNone>(id) != nullptr;
}

std::optional<DType> dtype_named(const Graph& graph, Id id) {
  const auto* const global = graph.get_if<Global>(id);
  if (global == nullptr) return std::nullopt;
  const auto* const type = std::ranges::find(kTypes, global->name, &TypeName::name);
  return type == kTypes.end() ? std::nullopt : std::optional(type->dtype);
}

/// (storage, offset, shape, strides, needs gradient, hooks[, type][, metadata])
Result<Node> rebuild_tensor(
    const Graph& graph,
    std::string_view name,
    const std::vector<Id>& arguments,
    const TensorSource& tensors,
    const PickleLimits& limits) {
  constexpr std::size_t kCommon = 6;
  const bool has_type = name == kRebuildTensorOfType;
  const std::size_t required = kCommon + (has_type ? 1 : 0);
  if (arguments.size() < required || arguments.size() > required + 1) return bad_arguments(name);
  const auto* const storage = graph.get_if<Storage>(arguments[0]);
  const auto* const offset = graph.get_if<std::int64_t>(arguments[1]);
  auto shape = numbers(graph, arguments[2], limits.dimensions_max);
  auto strides = numbers(graph, arguments[3], limits.dimensions_max);
  const auto* const needs_gradient = graph.get_if<bool>(arguments[4]);
  const bool whole = storage != nullptr && offset != nullptr && *offset >= 0 && shape && strides &&
                     shape->size() == strides->size() && needs_gradient != nullptr &&
                     is_empty(graph, arguments[5]);
  if (!whole) return bad_arguments(name);
  if (arguments.size() > required && !is_empty(graph, arguments[required])) {
    return corrupt("a tensor has metadata, which cannot be read");
  }
  const auto dtype = has_type ? dtype_named(graph, arguments[kCommon]) : storage->dtype;
  if (!dtype) return bad_arguments(name);
  auto tensor = tensors(
      {.storage = storage->key,
       .dtype = *dtype,
       .storage_bytes = storage->bytes,
       .offset = *offset,
       .shape = *std::move(shape),
       .strides = *std::move(strides)});
  if (!tensor) return tensor.error();
  return Node{.kind = *std::move(tensor)};
}

/// (tensor, needs gradient, hooks)
Result<Node> rebuild_parameter(const Graph& graph, const std::vector<Id>& arguments) {
  if (arguments.size() != 3) return bad_arguments(kRebuildParameter);
  const auto* const tensor = graph.get_if<TensorView>(arguments[0]);
  if (tensor == nullptr || !is_empty(graph, arguments[2])) return bad_arguments(kRebuildParameter);
  return Node{.kind = *tensor};
}

/// (), or (a list of pairs)
Result<Node> make_ordered_dict(const Graph& graph, const std::vector<Id>& arguments) {
  Mapping mapping{.is_ordered_dict = true, .entries = {}};
  if (arguments.empty()) return Node{.kind = std::move(mapping)};
  const auto* const pairs = graph.get_if<Sequence>(arguments[0]);
  if (arguments.size() != 1 || pairs == nullptr) return bad_arguments(kOrderedDict);
  for (const Id id : pairs->items) {
    const auto* const pair = graph.get_if<Sequence>(id);
    if (pair == nullptr || pair->items.size() != 2) return bad_arguments(kOrderedDict);
    mapping.entries.emplace_back(pair->items[0], pair->items[1]);
  }
  return Node{.kind = std::move(mapping)};
}

Result<Node> make_size(
    const Graph& graph, const std::vector<Id>& arguments, const PickleLimits& limits) {
  if (arguments.size() != 1 || !numbers(graph, arguments[0], limits.dimensions_max)) {
    return bad_arguments(kSize);
  }
  return graph.at(arguments[0]);
}

/// Our constant with the same name; empty if the name is not allowed.
std::string_view name_of_torchs(std::string_view name) {
  for (const std::string_view known :
       {kOrderedDict,
        kRebuildTensor,
        kRebuildTensorOfType,
        kRebuildParameter,
        kSize,
        kUntypedStorage}) {
    if (name == known) return known;
  }
  for (const TypeName& type : kTypes) {
    if (!type.storage.empty() && name == type.storage) return type.storage;
    if (name == type.name) return type.name;
  }
  return {};
}

/// "uint64" for a type that cannot be read; empty for everything else.
std::string_view other_type(std::string_view name) {
  constexpr std::string_view kModule = "torch ";
  for (const OtherType& type : kOtherTypes) {
    const bool is_storage = !type.storage.empty() && name == type.storage;
    if (is_storage || name == type.name) return type.name.substr(kModule.size());
  }
  return {};
}

std::string_view name_of_numpys(std::string_view name) {
  for (const std::string_view known : {kReconstruct, kArray, kArrayType}) {
    if (name == known) return known;
  }
  return {};
}

}  // namespace

std::string printable(std::string_view name) {
  constexpr std::size_t kShownMax = 80;
  std::string shown(name.substr(0, kShownMax));
  std::ranges::replace_if(
      shown, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return shown;
}

std::optional<std::vector<std::int64_t>> numbers(const Graph& graph, Id id, std::size_t count_max) {
  const auto* const items = graph.tuple(id);
  if (items == nullptr || items->size() > count_max) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const Id item : *items) {
    const auto* const number = graph.get_if<std::int64_t>(item);
    if (number == nullptr || *number < 0) return std::nullopt;
    values.push_back(*number);
  }
  return values;
}

Result<Node> look_up(std::string_view name, Vocabulary vocabulary) {
  const bool is_torchs = vocabulary == Vocabulary::kTorch;
  const std::string_view known = is_torchs ? name_of_torchs(name) : name_of_numpys(name);
  if (!known.empty()) return Node{.kind = Global{known}};
  if (const auto type = other_type(name); is_torchs && !type.empty()) {
    return corrupt(fmt::format(
        "it has a tensor of dtype torch.{}, which cannot be read; convert it to another dtype, or "
        "leave it out, and save again",
        type));
  }
  return corrupt(fmt::format(
      "it refers to '{}', which no file of {} needs and which could run any code; {}",
      printable(name),
      is_torchs ? "weights" : "arrays",
      is_torchs ? "save it again with only texts, numbers, lists, dicts and tensors"
                : "download the file from the publisher of the data set"));
}

Result<Node> load_persistent(const Graph& graph, Id id) {
  Error bad = corrupt("a persistent id does not refer to a storage");
  const auto* const items = graph.tuple(id);
  if (items == nullptr || items->size() != 5) return bad;
  const auto* const word = graph.get_if<std::string_view>((*items)[0]);
  const auto* const storage_class = graph.get_if<Global>((*items)[1]);
  const auto* const key = graph.get_if<std::string_view>((*items)[2]);
  const auto* const device = graph.get_if<std::string_view>((*items)[3]);
  const auto* const elements = graph.get_if<std::int64_t>((*items)[4]);
  const bool whole = word != nullptr && *word == kStorage && storage_class != nullptr &&
                     key != nullptr && device != nullptr && elements != nullptr && *elements >= 0;
  if (!whole) return bad;

  Storage storage{.key = *key, .dtype = std::nullopt, .bytes = 0};
  std::size_t unit = 1;
  if (storage_class->name != kUntypedStorage) {
    const auto* const type = std::ranges::find(kTypes, storage_class->name, &TypeName::storage);
    if (type == kTypes.end()) return bad;
    storage.dtype = type->dtype;
    unit = size_of(type->dtype);
  }
  if (__builtin_mul_overflow(static_cast<std::size_t>(*elements), unit, &storage.bytes)) return bad;
  return Node{.kind = storage};
}

Result<Node> call(
    const Graph& graph,
    Id function,
    Id arguments,
    const TensorSource& tensors,
    const PickleLimits& limits) {
  const auto* const global = graph.get_if<Global>(function);
  const auto* const items = graph.tuple(arguments);
  if (global == nullptr || items == nullptr)
    return corrupt("it calls something that is not a function");
  const std::string_view name = global->name;
  if (name == kOrderedDict) return make_ordered_dict(graph, *items);
  if (name == kSize) return make_size(graph, *items, limits);
  if (name == kRebuildParameter) return rebuild_parameter(graph, *items);
  if (name == kReconstruct) return make_array(graph, *items);
  if (name == kArrayType) return make_array_type(graph, *items);
  if (name == kRebuildTensor || name == kRebuildTensorOfType) {
    return rebuild_tensor(graph, name, *items, tensors, limits);
  }
  return corrupt(fmt::format("it calls '{}', which is not a function", name));
}

}  // namespace ddprun::pickle_graph
