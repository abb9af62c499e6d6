#pragma once

// What the machine of pickle_reader.cpp has made so far. Objects name each other by number, so that
// sharing costs nothing and a cycle does no harm; tree_of() copies what is shared, within limits.

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
  std::optional<DType> dtype;  // none: untyped, the tensor tells it
  std::size_t bytes = 0;
};

/// An array of numpy's before its state is set, which makes a tensor of it.
struct EmptyArray {};

/// numpy's type of bytes; arrays of others are refused.
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

/// All objects; they stay where they are numbered.
class Graph {
 public:
  /// REQUIRES: fewer than 2^32 objects.
  Id add(Node node);
  Node& at(Id id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& at(Id id) const { return nodes_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return nodes_.size(); }

  /// Null when the object is of another kind.
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

/// The object `root` and all below it as values. Fails as read_pickle() does.
Result<PyValue> tree_of(const Graph& graph, Id root, const PickleLimits& limits);

/// What a persistent id names: torch's only one is ('storage', class, key, device, elements).
Result<Node> load_persistent(const Graph& graph, Id id);

/// What calling `function` with `arguments` yields. Fails with kCorrupt where it is none of the few
/// that a training state needs, or the arguments are none of its.
Result<Node> call(
    const Graph& graph,
    Id function,
    Id arguments,
    const TensorSource& tensors,
    const PickleLimits& limits);

/// What `object` becomes when the attributes in `state` are set: of an array of numpy's, a tensor.
/// Fails with kCorrupt where it has none that matter, or they are of another form.
Result<Node> set_state(
    const Graph& graph,
    Id object,
    Id state,
    const TensorSource& arrays,
    const PickleLimits& limits);

/// Whose objects a pickle may name beside plain values.
enum class Vocabulary : std::uint8_t { kTorch, kNumpy };

/// The global of this name, "module name"; it keeps a name of ours. Fails with kCorrupt when it is
/// not allowed.
Result<Node> look_up(std::string_view name, Vocabulary vocabulary);

/// A tuple of numbers >= 0, at most `count_max` of them; else none.
std::optional<std::vector<std::int64_t>> numbers(const Graph& graph, Id id, std::size_t count_max);

/// For messages: what an attacker wrote may be long and may hold control characters.
std::string printable(std::string_view name);

// The calls of numpy's, with their arguments.

Result<Node> make_array(const Graph& graph, const std::vector<Id>& arguments);
Result<Node> make_array_type(const Graph& graph, const std::vector<Id>& arguments);

}  // namespace ddprun::pickle_graph
