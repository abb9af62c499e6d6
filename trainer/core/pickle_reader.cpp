#include "trainer/core/corrupt.hpp"
#include "trainer/core/pickle_graph.hpp"
#include "trainer/core/pickle_words.hpp"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

using namespace pickle_words;
using pickle_graph::Graph;
using pickle_graph::Id;
using pickle_graph::Mapping;
using pickle_graph::Node;
using pickle_graph::Sequence;
using pickle_graph::Vocabulary;

/// The machine: a stack, marks on it, and a numbered memo of values.
class Machine {
 public:
  Machine(
      std::string_view pickle,
      Vocabulary vocabulary,
      const TensorSource& tensors,
      const PickleLimits& limits)
      : pickle_(pickle), vocabulary_(vocabulary), tensors_(tensors), limits_(limits) {}

  Result<PyValue> run() {
    while (!result_) {
      const std::size_t place = place_;
      const auto code = number(1);
      const auto done = code ? step(static_cast<Op>(*code)) : corrupt("it has no end");
      if (!done) return with_context(fmt::format("pickle, byte {}", place), done.error());
    }
    auto value = pickle_graph::tree_of(graph_, *result_, limits_);
    if (!value) return with_context("pickle", value.error());
    return value;
  }

 private:
  /// One instruction. The switch lists all known opcodes, hence its length.
  // NOLINTNEXTLINE(readability-function-size)
  Result<void> step(Op code) {
    switch (code) {
      case Op::kProto:
        return check_protocol();
      case Op::kStop:
        return stop();
      case Op::kNone:
        return push({.kind = PyNone{}});
      case Op::kNewTrue:
        return push({.kind = true});
      case Op::kNewFalse:
        return push({.kind = false});
      case Op::kBinInt1:
        return push_integer(1, Sign::kNone);
      case Op::kBinInt2:
        return push_integer(2, Sign::kNone);
      case Op::kBinInt:
        return push_integer(4, Sign::kTop);
      case Op::kLong1:
        return push_long();
      case Op::kBinFloat:
        return push_float();
      case Op::kBinUnicode:
        return push_text(4);
      case Op::kShortBinString:
        return is_numpys() ? push_text(1) : unknown(code);
      case Op::kBinString:
        return is_numpys() ? push_text(4) : unknown(code);
      case Op::kEmptyList:
        return push({.kind = Sequence{.is_tuple = false, .items = {}}});
      case Op::kEmptyTuple:
        return push({.kind = Sequence{.is_tuple = true, .items = {}}});
      case Op::kEmptyDict:
        return push({.kind = Mapping{}});
      case Op::kMark:
        marks_.push_back(stack_.size());
        return {};
      case Op::kTuple:
        return push_tuple(pop_to_mark());
      case Op::kTuple1:
        return push_tuple(pop(1));
      case Op::kTuple2:
        return push_tuple(pop(2));
      case Op::kTuple3:
        return push_tuple(pop(3));
      case Op::kAppend:
        return append(pop(1));
      case Op::kAppends:
        return append(pop_to_mark());
      case Op::kSetItem:
        return set_items(pop(2));
      case Op::kSetItems:
        return set_items(pop_to_mark());
      case Op::kBinPut:
        return remember(number(1));
      case Op::kLongBinPut:
        return remember(number(4));
      case Op::kBinGet:
        return recall(number(1));
      case Op::kLongBinGet:
        return recall(number(4));
      case Op::kGlobal:
        return push_global();
      case Op::kBinPersId:
        return is_numpys() ? unknown(code) : load_persistent();
      case Op::kReduce:
        return reduce();
      case Op::kBuild:
        return build();
    }
    return unknown(code);
  }

  bool is_numpys() const { return vocabulary_ == Vocabulary::kNumpy; }

  Result<void> unknown(Op code) const {
    return corrupt(fmt::format(
        "opcode 0x{:02x} is not one that {} writes",
        static_cast<int>(code),
        is_numpys() ? "Python 2" : "torch.save()"));
  }

  // The pickle's own bytes.

  std::optional<std::string_view> take(std::size_t count) {
    if (pickle_.size() - place_ < count) return std::nullopt;
    const auto taken = pickle_.substr(place_, count);
    place_ += count;
    return taken;
  }

  /// Little-endian, at most 8 bytes; none at the end of the pickle.
  std::optional<std::uint64_t> number(std::size_t bytes) {
    const auto text = take(bytes);
    if (!text) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) {
      value = value << 8U | static_cast<std::uint8_t>((*text)[i]);
    }
    return value;
  }

  static Error cut_off() { return corrupt("it is truncated"); }

  Result<void> check_protocol() {
    const auto version = number(1);
    if (!version) return cut_off();
    if (*version == kProtocol) return {};
    return corrupt(fmt::format("protocol {}; only {} can be read", *version, kProtocol));
  }

  Result<void> stop() {
    if (stack_.size() != 1 || !marks_.empty())
      return corrupt("it ends with more or less than one value");
    result_ = stack_.back();
    return {};
  }

  // Values.

  Result<void> push(Node node) {
    if (graph_.size() >= limits_.values_max) {
      return make_error(Errc::kLimit, fmt::format("more than {} values", limits_.values_max));
    }
    stack_.push_back(graph_.add(std::move(node)));
    return {};
  }

  Result<void> push_result(Result<Node> node) {
    if (!node) return node.error();
    return push(*std::move(node));
  }

  enum class Sign : std::uint8_t { kNone, kTop };

  Result<void> push_integer(std::size_t bytes, Sign sign) {
    const auto bits = number(bytes);
    if (!bits) return cut_off();
    const std::size_t shift = sign == Sign::kTop ? 64 - 8 * bytes : 0;
    return push({.kind = static_cast<std::int64_t>(*bits << shift) >> shift});
  }

  Result<void> push_long() {
    const auto bytes = number(1);
    if (!bytes) return cut_off();
    if (*bytes == sizeof(std::uint64_t) + 1) return push_unsigned();
    if (*bytes > sizeof(std::int64_t)) return corrupt("a whole number has more than 64 bits");
    if (*bytes == 0) return push({.kind = std::int64_t{0}});
    return push_integer(*bytes, Sign::kTop);
  }

  /// 64 bits, followed by a byte for the sign.
  Result<void> push_unsigned() {
    const auto bits = number(sizeof(std::uint64_t));
    const auto sign = number(1);
    if (!bits || !sign) return cut_off();
    if (*sign != 0) return corrupt("a whole number has more than 64 bits");
    if (std::in_range<std::int64_t>(*bits)) return push({.kind = static_cast<std::int64_t>(*bits)});
    return push({.kind = *bits});
  }

  Result<void> push_float() {
    const auto bits = number(sizeof(double));
    if (!bits) return cut_off();
    return push({.kind = std::bit_cast<double>(__builtin_bswap64(*bits))});
  }

  Result<void> push_text(std::size_t size_bytes) {
    const auto size = number(size_bytes);
    const auto text = size ? take(*size) : std::nullopt;
    if (!text) return cut_off();
    return push({.kind = *text});
  }

  Result<void> push_tuple(std::optional<std::vector<Id>> items) {
    if (!items) return underflow();
    return push({.kind = Sequence{.is_tuple = true, .items = *std::move(items)}});
  }

  Result<void> push_global() {
    const std::size_t line = pickle_.find('\n', place_);
    const std::size_t end = line == std::string_view::npos ? line : pickle_.find('\n', line + 1);
    if (end == std::string_view::npos) return cut_off();
    std::string name(pickle_.substr(place_, end - place_));
    name[line - place_] = ' ';
    place_ = end + 1;
    return push_result(pickle_graph::look_up(name, vocabulary_));
  }

  // The stack: values below the last mark are out of reach until an opcode removes the mark.

  static Error underflow() { return corrupt("stack underflow"); }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::optional<std::vector<Id>> pop(std::size_t count) {
    if (stack_.size() - floor() < count) return std::nullopt;
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Id> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }

  std::optional<std::vector<Id>> pop_to_mark() {
    if (marks_.empty()) return std::nullopt;
    auto items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  template <class T>
  T* top() {
    return stack_.size() > floor() ? graph_.get_if<T>(stack_.back()) : nullptr;
  }

  Result<void> append(const std::optional<std::vector<Id>>& items) {
    auto* const list = top<Sequence>();
    if (!items || list == nullptr || list->is_tuple) return corrupt("no list to append to");
    list->items.insert(list->items.end(), items->begin(), items->end());
    return {};
  }

  Result<void> set_items(const std::optional<std::vector<Id>>& items) {
    auto* const dict = top<Mapping>();
    if (!items || items->size() % 2 != 0 || dict == nullptr) {
      return corrupt("no dict to put pairs into");
    }
    for (std::size_t i = 0; i < items->size(); i += 2) {
      dict->entries.emplace_back((*items)[i], (*items)[i + 1]);
    }
    return {};
  }

  Result<void> remember(std::optional<std::uint64_t> number) {
    if (!number) return cut_off();
    if (stack_.size() == floor()) return underflow();
    memo_[*number] = stack_.back();
    return {};
  }

  Result<void> recall(std::optional<std::uint64_t> number) {
    if (!number) return cut_off();
    const auto found = memo_.find(*number);
    if (found == memo_.end()) return corrupt(fmt::format("nothing is stored in memo {}", *number));
    stack_.push_back(found->second);
    return {};
  }

  // Calls.

  Result<void> load_persistent() {
    const auto id = pop(1);
    if (!id) return underflow();
    return push_result(pickle_graph::load_persistent(graph_, id->front()));
  }

  Result<void> reduce() {
    const auto both = pop(2);
    if (!both) return underflow();
    return push_result(pickle_graph::call(graph_, both->front(), both->back(), tensors_, limits_));
  }

  /// Sets attributes of an object. Those of an OrderedDict are versions of modules.
  Result<void> build() {
    const auto state = pop(1);
    if (!state || stack_.size() == floor()) return underflow();
    const auto* const dict = top<Mapping>();
    if (dict != nullptr && dict->is_ordered_dict) return {};
    auto changed =
        pickle_graph::set_state(graph_, stack_.back(), state->front(), tensors_, limits_);
    if (!changed) return changed.error();
    graph_.at(stack_.back()) = *std::move(changed);
    return {};
  }

  std::string_view pickle_;
  Vocabulary vocabulary_;
  const TensorSource& tensors_;
  const PickleLimits& limits_;
  std::size_t place_ = 0;
  Graph graph_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Id> memo_;
  std::optional<Id> result_;
};

Result<PyValue> run(
    std::string_view pickle,
    Vocabulary vocabulary,
    const TensorSource& tensors,
    const PickleLimits& limits) {
  if (pickle.size() > limits.bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("a pickle of {} bytes; the limit is {}", pickle.size(), limits.bytes_max));
  }
  return Machine(pickle, vocabulary, tensors, limits).run();
}

}  // namespace

Result<PyValue> read_pickle(
    std::string_view pickle, const TensorSource& tensors, const PickleLimits& limits) {
  return run(pickle, Vocabulary::kTorch, tensors, limits);
}

Result<PyValue> read_numpy_pickle(
    std::string_view pickle, const TensorSource& arrays, const PickleLimits& limits) {
  return run(pickle, Vocabulary::kNumpy, arrays, limits);
}

}  // namespace ddprun
