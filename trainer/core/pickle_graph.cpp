#include "trainer/core/pickle_graph.hpp"

#include "base/check.hpp"
#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>

namespace ddprun::pickle_graph {
namespace {

Error beyond(std::string_view what, std::size_t limit) {
  return make_error(Errc::kLimit, fmt::format("more than {} {}", limit, what));
}

class Copier {
 public:
  Copier(const Graph& graph, const PickleLimits& limits) : graph_(graph), limits_(limits) {}

  Result<PyValue> copy(Id id, int depth) {
    if (depth > limits_.depth_max) {
      return make_error(
          Errc::kLimit, fmt::format("containers nested deeper than {} levels", limits_.depth_max));
    }
    if (++values_ > limits_.values_max) return beyond("values", limits_.values_max);
    return std::visit([&](const auto& kind) { return copy_kind(kind, depth); }, graph_.at(id).kind);
  }

 private:
  template <class T>
  Result<PyValue> copy_kind(const T& plain, int /*depth*/) {
    return PyValue{.kind = plain};
  }

  Result<PyValue> copy_kind(std::string_view text, int /*depth*/) {
    if (!take_text(text)) return beyond("bytes of text", limits_.text_bytes_max);
    return PyValue{.kind = std::string(text)};
  }

  Result<PyValue> copy_kind(const Sequence& sequence, int depth) {
    std::vector<PyValue> items;
    for (const Id id : sequence.items) {
      auto item = copy(id, depth + 1);
      if (!item) return item.error();
      items.push_back(*std::move(item));
    }
    if (sequence.is_tuple) return PyValue{.kind = PyTuple{std::move(items)}};
    return PyValue{.kind = PyList{std::move(items)}};
  }

  Result<PyValue> copy_kind(const Mapping& mapping, int depth) {
    PyDict dict;
    std::map<PyKey, std::size_t> places;
    for (const auto& [key_id, value_id] : mapping.entries) {
      auto key = copy_key(key_id);
      if (!key) return key.error();
      auto value = copy(value_id, depth + 1);
      if (!value) return value.error();
      const auto [place, is_new] = places.emplace(*key, dict.entries.size());
      if (is_new) {
        dict.add(*std::move(key), *std::move(value));
      } else {
        dict.entries[place->second].value = *std::move(value);
      }
    }
    return PyValue{.kind = std::move(dict)};
  }

  Result<PyValue> copy_kind(const Global& global, int /*depth*/) {
    return corrupt(fmt::format("'{}' stands where a value is expected", global.name));
  }

  Result<PyValue> copy_kind(const Storage& storage, int /*depth*/) {
    return corrupt(fmt::format("storage '{}' stands where a value is expected", storage.key));
  }

  Result<PyValue> copy_kind(const EmptyArray& /*array*/, int /*depth*/) {
    return corrupt("an array without its content stands where a value is expected");
  }

  Result<PyValue> copy_kind(const ByteType& /*type*/, int /*depth*/) {
    return corrupt("a type stands where a value is expected");
  }

  Result<PyKey> copy_key(Id id) {
    if (++values_ > limits_.values_max) return beyond("values", limits_.values_max);
    if (const auto* const number = graph_.get_if<std::int64_t>(id)) return PyKey{*number};
    const auto* const text = graph_.get_if<std::string_view>(id);
    if (text == nullptr) {
      return corrupt("a key of a dict is neither a text nor a whole number of 64 bits");
    }
    if (!take_text(*text)) return beyond("bytes of text", limits_.text_bytes_max);
    return PyKey{std::string(*text)};
  }

  bool take_text(std::string_view text) {
    text_bytes_ += text.size();
    return text_bytes_ <= limits_.text_bytes_max;
  }

  const Graph& graph_;
  const PickleLimits& limits_;
  std::size_t values_ = 0;
  std::size_t text_bytes_ = 0;
};

}  // namespace

Id Graph::add(Node node) {
  DDPRUN_CHECK(nodes_.size() < std::numeric_limits<std::uint32_t>::max());
  nodes_.push_back(std::move(node));
  return Id{static_cast<std::uint32_t>(nodes_.size() - 1)};
}

const std::vector<Id>* Graph::tuple(Id id) const {
  const auto* const sequence = get_if<Sequence>(id);
  return sequence != nullptr && sequence->is_tuple ? &sequence->items : nullptr;
}

Result<PyValue> tree_of(const Graph& graph, Id root, const PickleLimits& limits) {
  return Copier(graph, limits).copy(root, 0);
}

}  // namespace ddprun::pickle_graph
