// What a pickle of Python 2 may do with numpy's arrays: make an empty one and a type, and set the
// state of both. (numpy's methods ndarray.__reduce__ and __setstate__ define a state.)

#include "trainer/core/corrupt.hpp"
#include "trainer/core/pickle_graph.hpp"
#include "trainer/core/pickle_words.hpp"

#include <fmt/format.h>

namespace ddprun::pickle_graph {
namespace {

using namespace pickle_words;

/// Strides of a column-major array, by the rules of dense_strides().
std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape) {
  const std::vector<std::int64_t> reversed(shape.rbegin(), shape.rend());
  const std::vector<std::int64_t> strides = dense_strides(reversed);
  return {strides.rbegin(), strides.rend()};
}

/// (version, shape, type, is column-major, content)
Result<Node> fill_array(
    const Graph& graph, Id state, const TensorSource& arrays, const PickleLimits& limits) {
  constexpr std::int64_t kVersion = 1;
  constexpr std::size_t kParts = 5;
  Error bad = corrupt("the state of an array does not have numpy's form");
  const auto* const items = graph.tuple(state);
  if (items == nullptr || items->size() != kParts) return bad;
  const auto* const version = graph.get_if<std::int64_t>((*items)[0]);
  auto shape = numbers(graph, (*items)[1], limits.dimensions_max);
  const auto* const type = graph.get_if<ByteType>((*items)[2]);
  const auto* const is_column_major = graph.get_if<bool>((*items)[3]);
  const auto* const content = graph.get_if<std::string_view>((*items)[4]);
  const bool whole = version != nullptr && *version == kVersion && shape && type != nullptr &&
                     is_column_major != nullptr && content != nullptr;
  if (!whole) return bad;
  const auto bytes = size_of_tensor(DType::kU8, *shape);
  if (!bytes || *bytes != content->size()) {
    return corrupt(
        fmt::format("an array has {} bytes, which does not match its shape", content->size()));
  }
  auto strides = *is_column_major ? column_major_strides(*shape) : dense_strides(*shape);
  auto tensor = arrays(
      {.storage = *content,
       .dtype = DType::kU8,
       .storage_bytes = content->size(),
       .offset = 0,
       .shape = *std::move(shape),
       .strides = std::move(strides)});
  if (!tensor) return tensor.error();
  return Node{.kind = *std::move(tensor)};
}

}  // namespace

/// (class, shape of nothing, type of nothing): only the class matters before the state is set.
Result<Node> make_array(const Graph& graph, const std::vector<Id>& arguments) {
  const auto* const array = arguments.size() == 3 ? graph.get_if<Global>(arguments[0]) : nullptr;
  if (array == nullptr || array->name != kArray) {
    return corrupt(fmt::format("'{}' makes something other than an array", kReconstruct));
  }
  return Node{.kind = EmptyArray{}};
}

/// (code, is aligned, is a copy)
Result<Node> make_array_type(const Graph& graph, const std::vector<Id>& arguments) {
  constexpr std::string_view kByteCode = "u1";
  const auto* const code =
      arguments.size() == 3 ? graph.get_if<std::string_view>(arguments[0]) : nullptr;
  if (code == nullptr) return corrupt("a numpy type has unexpected arguments");
  if (*code == kByteCode) return Node{.kind = ByteType{}};
  return corrupt(fmt::format(
      "an array of type '{}'; only '{}', bytes, can be read", printable(*code), kByteCode));
}

Result<Node> set_state(
    const Graph& graph,
    Id object,
    Id state,
    const TensorSource& arrays,
    const PickleLimits& limits) {
  if (graph.get_if<EmptyArray>(object) != nullptr) return fill_array(graph, state, arrays, limits);
  // Byte order, alignment and the like: meaningless for bytes.
  if (graph.get_if<ByteType>(object) != nullptr) return Node{.kind = ByteType{}};
  return corrupt("it sets attributes of something other than an OrderedDict or an array");
}

}  // namespace ddprun::pickle_graph
