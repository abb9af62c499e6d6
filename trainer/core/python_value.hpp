#pragma once

// What a Python program pickles when it saves a training: dicts, lists, numbers, texts and tensors.
// A tree of values, without the sharing and the cycles that Python's objects may have.

#include "trainer/core/safetensors.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

struct PyValue;
struct PyEntry;

struct PyNone {};

struct PyList {
  std::vector<PyValue> items;
};

struct PyTuple {
  std::vector<PyValue> items;
};

/// The keys of the dicts that training programs save.
using PyKey = std::variant<std::int64_t, std::string>;

/// In the order of insertion, as in Python. Keys differ.
struct PyDict {
  std::vector<PyEntry> entries;

  /// Null when there is none.
  const PyValue* find(std::string_view key) const;
  const PyValue* find(std::int64_t key) const;

  /// Appends. REQUIRES: there is no such key.
  void add(PyKey key, PyValue value);
};

/// One value. A tensor has no name here: its key is its name.
struct PyValue {
  using Kind = std::variant<
      PyNone,
      bool,
      std::int64_t,
      std::uint64_t,  // above what the former holds, as a seed of torch.seed() may be
      double,
      std::string,
      PyList,
      PyTuple,
      PyDict,
      TensorView>;
  Kind kind;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&kind);
  }
};

struct PyEntry {
  PyKey key;
  PyValue value;
};

/// As Python calls it: "dict", "int", ...
std::string_view type_name(const PyValue& value);

/// "'model'" or "3", for messages.
std::string to_text(const PyKey& key);

}  // namespace ddprun
