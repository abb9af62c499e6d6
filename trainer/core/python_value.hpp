#pragma once

// The values that a Python program pickles when it saves a training: dicts, lists, numbers, texts
// and tensors. A tree, without the sharing and the cycles that Python's objects may have.

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

/// In the order of insertion, as in Python. Keys are unique.
struct PyDict {
  std::vector<PyEntry> entries;

  /// Null if there is none.
  const PyValue* find(std::string_view key) const;
  const PyValue* find(std::int64_t key) const;

  /// Appends. REQUIRES: the key does not exist.
  void add(PyKey key, PyValue value);
};

/// One value. A tensor has no name here: its key is its name.
struct PyValue {
  using Kind = std::variant<
      PyNone,
      bool,
      std::int64_t,
      std::uint64_t,  // above int64, such as a seed from torch.seed()
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

/// Python's name of the type: "dict", "int", ...
std::string_view type_name(const PyValue& value);

/// "'model'" or "3", for messages.
std::string to_text(const PyKey& key);

}  // namespace ddprun
