#include "trainer/core/python_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

const PyValue* find_in(const PyDict& dict, const PyKey& key) {
  const auto found = std::ranges::find(dict.entries, key, &PyEntry::key);
  return found == dict.entries.end() ? nullptr : &found->value;
}

}  // namespace

const PyValue* PyDict::find(std::string_view key) const {
  return find_in(*this, std::string(key));
}

const PyValue* PyDict::find(std::int64_t key) const {
  return find_in(*this, key);
}

void PyDict::add(PyKey key, PyValue value) {
  entries.push_back({.key = std::move(key), .value = std::move(value)});
}

std::string_view type_name(const PyValue& value) {
  constexpr std::array<std::string_view, 10> kNames = {
      "None", "bool", "int", "int", "float", "str", "list", "tuple", "dict", "Tensor"};
  static_assert(kNames.size() == std::variant_size_v<PyValue::Kind>);
  return kNames[value.kind.index()];
}

std::string to_text(const PyKey& key) {
  if (const auto* const number = std::get_if<std::int64_t>(&key)) return std::to_string(*number);
  return fmt::format("'{}'", std::get<std::string>(key));
}

}  // namespace ddprun
