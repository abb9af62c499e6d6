#include "trainer/core/cifar_pickle.hpp"

#include "trainer/core/cifar.hpp"
#include "trainer/core/corrupt.hpp"
#include "trainer/core/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {
namespace {

/// The value of type T under `key`; `expected` is Python's name of the type.
template <class T>
Result<const T*> entry(const PyDict& dict, std::string_view key, std::string_view expected) {
  const PyValue* const value = dict.find(key);
  const T* const found = value == nullptr ? nullptr : value->get_if<T>();
  if (found != nullptr) return found;
  return corrupt(fmt::format("it has no {} '{}'", expected, key));
}

Result<const PyDict*> root_of(const PyValue& value) {
  const auto* const dict = value.get_if<PyDict>();
  if (dict == nullptr) return corrupt(fmt::format("it is a {}, not a dict", type_name(value)));
  return dict;
}

/// Copies the array row by row, also if numpy stored it by columns.
Result<std::vector<std::uint8_t>> rows_of(const StoredTensor& array) {
  if (array.shape.size() != 2 || array.shape[1] != std::int64_t{kCifarPixelBytes}) {
    return corrupt(fmt::format("its array does not have the shape (count, {})", kCifarPixelBytes));
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(array.storage.data());
  if (array.strides[1] == 1) return std::vector<std::uint8_t>(bytes, bytes + array.storage.size());
  std::vector<std::uint8_t> rows;
  rows.reserve(array.storage.size());
  for (std::int64_t row = 0; row < array.shape[0]; ++row) {
    for (std::int64_t column = 0; column < array.shape[1]; ++column) {
      rows.push_back(bytes[row * array.strides[0] + column * array.strides[1]]);
    }
  }
  return rows;
}

Result<std::vector<std::uint8_t>> labels_of(const PyList& list) {
  std::vector<std::uint8_t> labels;
  labels.reserve(list.items.size());
  for (const PyValue& item : list.items) {
    const auto* const label = item.get_if<std::int64_t>();
    if (label == nullptr || *label < 0 || *label >= kCifarClasses) {
      return corrupt(fmt::format(
          "label {} is {}; the classes are 0 to {}",
          labels.size(),
          label == nullptr ? fmt::format("a {}", type_name(item)) : std::to_string(*label),
          kCifarClasses - 1));
    }
    labels.push_back(static_cast<std::uint8_t>(*label));
  }
  return labels;
}

}  // namespace

Result<CifarBatch> parse_cifar_pickle(std::string_view file) {
  CifarBatch batch;
  bool has_array = false;
  // Only one array: a small pickle could refer to the same bytes thousands of times.
  const TensorSource take_array = [&](const StoredTensor& array) -> Result<TensorView> {
    if (has_array) return corrupt("it has more than one array");
    has_array = true;
    auto rows = rows_of(array);
    if (!rows) return rows.error();
    batch.pixels = *std::move(rows);
    return TensorView{
        .name = {},
        .dtype = array.dtype,
        .shape = array.shape,
        .bytes = std::as_bytes(std::span(batch.pixels))};
  };
  const auto value = read_numpy_pickle(file, take_array);
  if (!value) return value.error();
  const auto root = root_of(*value);
  if (!root) return root.error();
  const auto data = entry<TensorView>(**root, "data", "array");
  if (!data) return data.error();
  const auto list = entry<PyList>(**root, "labels", "list");
  if (!list) return list.error();
  auto labels = labels_of(**list);
  if (!labels) return labels.error();
  batch.labels = *std::move(labels);
  const std::size_t images = batch.pixels.size() / kCifarPixelBytes;
  if (images == batch.labels.size() && images > 0) return batch;
  return corrupt(fmt::format("it has {} images but {} labels", images, batch.labels.size()));
}

Result<std::vector<std::string>> parse_cifar_names(std::string_view file) {
  const TensorSource refuse = [](const StoredTensor& /*array*/) -> Result<TensorView> {
    return corrupt("it has an array");
  };
  const auto value = read_numpy_pickle(file, refuse);
  if (!value) return value.error();
  const auto root = root_of(*value);
  if (!root) return root.error();
  const auto list = entry<PyList>(**root, "label_names", "list");
  if (!list) return list.error();
  std::vector<std::string> names;
  for (const PyValue& item : (*list)->items) {
    const auto* const name = item.get_if<std::string>();
    if (name == nullptr) return corrupt(fmt::format("a name is a {}", type_name(item)));
    names.push_back(*name);
  }
  return names;
}

}  // namespace ddprun
