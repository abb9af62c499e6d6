#pragma once

// The objects that the machine of pickle_reader.cpp has made so far. They refer to each other by
// number: sharing is free, cycles are harmless. tree_of() copies shared objects, within limits.

#include "trainer/core/pickle.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::pickle_graph {

enum class Id : std::uint32_t {};

struct Sequence {
  bool is_tuple = false;
  std::vector<Id> items;
};

struct Mapping {
  bool is_ordered_dict = false;
  std::vector<std::pair<Id, Id>> entries;  // keys may repeat: the last one counts
};

/// A name that the pickle looked up, "module name"; one of those in pickle_words.hpp.
struct Global {
  std::string_view name;
};

struct Storage {
  std::string_view key;
  std::optional<DType> dtype;  // none: untyped, the tensor has the type
  std::size_t bytes = 0;
};

/// An array of numpy before its state is set, which turns it into a tensor.
struct EmptyArray {};

/// numpy's type of bytes; arrays of other types are refused.
struct ByteType {};

struct Node {
  std::variant<
      PyNone,
      bool,
      std::int64_t,
      std::uint64_t,
      double,
      std::string_view,
      Sequence,
      Mapping,
      Global,
      Storage,
      EmptyArray,
      ByteType,
      TensorView>
      kind;
};

/// All objects; their numbers and addresses stay valid.
class Graph {
 public:
  /// REQUIRES: fewer than 2^32 objects.
  Id add(Node node);
  Node& at(Id id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& at(Id id) const { return nodes_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return nodes_.size(); }

  /// Null if the object is of another kind.
  template <class T>
  T* get_if(Id id) {
    return std::get_if<T>(&at(id).kind);
  }
  template <class T>
  const T* get_if(Id id) const {
    return std::get_if<T>(&at(id).kind);
  }

  /// The items if it is a tuple, else null.
  const std::vector<Id>* tuple(Id id) const;

 private:
  std::vector<Node> nodes_;
};

/// The object `root` and everything below it as values. Fails as read_pickle() does.
Result<PyValue> tree_of(const Graph& graph, Id root, const PickleLimits& limits);

/// What a persistent id refers to: torch's only kind is ('storage', class, key, device, elements).
Result<Node> load_persistent(const Graph& graph, Id id);

/// The result of calling `function` with `arguments`. Fails with kCorrupt if a training state does
/// not need this function, or the arguments do not fit it.
Result<Node> call(
    const Graph& graph,
    Id function,
    Id arguments,
    const TensorSource& tensors,
    const PickleLimits& limits);

/// The result of setting the attributes in `state` on `object`: for a numpy array, a tensor. Fails
/// with kCorrupt if the object has no attributes that matter, or `state` has another form.
Result<Node> set_state(
    const Graph& graph,
    Id object,
    Id state,
    const TensorSource& arrays,
    const PickleLimits& limits);

/// Whose objects a pickle may refer to besides plain values.
enum class Vocabulary : std::uint8_t { kTorch, kNumpy };

/// The global called `name`, "module name"; the result refers to our own constant. Fails with
/// kCorrupt if the name is not allowed.
Result<Node> look_up(std::string_view name, Vocabulary vocabulary);

/// A tuple of numbers >= 0, at most `count_max` of them; else none.
std::optional<std::vector<std::int64_t>> numbers(const Graph& graph, Id id, std::size_t count_max);

/// For messages: a name from an attacker may be long and contain control characters.
std::string printable(std::string_view name);

// Numpy's calls, with their arguments.

Result<Node> make_array(const Graph& graph, const std::vector<Id>& arguments);
Result<Node> make_array_type(const Graph& graph, const std::vector<Id>& arguments);

}  // namespace ddprun::pickle_graph
