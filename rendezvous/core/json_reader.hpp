#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/json_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::wire {

/// What to do with a field that the table does not have.
enum class Unknown : std::uint8_t { kRefuse, kSkip };

/// Reads a value by its table of fields, straight from the events of a JSON parser: a tree of JSON
/// would take longer than all else that a leader of 1,000 nodes does with 6,700 messages a second.
class JsonReader {
 public:
  /// `name` is what errors call the value; it may be empty.
  JsonReader(std::string_view name, Unknown unknown) : name_(name), unknown_(unknown) {}

  template <class T>
  Result<void> read(std::string_view text, T& into) {
    frames_.reserve(kUsualDepth);
    // The whole text is treated as a list of one item.
    add_frame(
        {.visit = [](JsonReader& reader, void* value) { reader.take(*static_cast<T*>(value)); },
         .into = &into,
         .is_list = true,
         .items_max = 1});
    return parse(text);
  }

  template <class T, class... Limits>
  void operator()(std::string_view name, T& value, const Limits&... limits) {
    if (is_next(name, true)) take(value, limits...);
  }
  template <class T, class... Limits>
  void operator()(std::string_view name, std::optional<T>& value, const Limits&... limits) {
    if (is_next(name, false)) take(value.emplace(), limits...);
  }
  template <class T, class... Limits>
  void nullable(std::string_view name, std::optional<T>& value, const Limits&... limits) {
    if (!is_next(name, true) || std::holds_alternative<std::nullptr_t>(value_)) return;
    take(value.emplace(), limits...);
  }
  template <class... Ts>
  void first(std::string_view name, std::variant<Ts...>& value, Names names) {
    if (is_next(name, true)) return take(value, names);
    if (!is_at_end_ && frames_.back().seen == 0)
      refuse(fmt::format("has no {} before other fields", name));
  }
  void require(bool claim, std::string_view why);

 private:
  class Events;  // of the parser

  enum class Begin : std::uint8_t { kObject, kList };
  using Value = std::variant<
      std::nullptr_t,
      bool,
      std::int64_t,
      std::uint64_t,  // above INT64_MAX
      double,
      std::string_view,
      Begin>;

  /// An object or a list that has begun.
  struct Frame {
    // Calls back with each field of the object, or reads the next item of the list.
    void (*visit)(JsonReader& reader, void* into) = nullptr;
    void* into = nullptr;
    bool is_list = false;
    std::size_t items_max = 0;
    Range range = {};  // of each item, if they are numbers
    std::size_t items = 0;
    std::uint64_t seen = 0;  // fields, a bit for each
    // Of the field that it is the value of. g++ warns of a designated initializer without it.
    std::string_view name = {};  // NOLINT(readability-redundant-member-init)
  };

  static constexpr std::size_t kUsualDepth = 8;

  Result<void> parse(std::string_view text);

  // Events: each returns whether to continue.
  bool on_value(Value value);
  bool on_end();

  /// Whether the value belongs to the field `name` of the present object. At the end of an object:
  /// refuses it if that field is required and missing.
  bool is_next(std::string_view name, bool is_required);
  void add_frame(Frame frame);

  void take(std::integral auto& number, const Range& range) {
    number = static_cast<std::remove_reference_t<decltype(number)>>(integer(range));
  }
  void take(bool& flag);
  void take(Duration& duration, const Range& range) { duration = Duration(integer(range)); }
  void take(Duration& duration, Seconds unit);
  void take(std::string& text, const Length& length);
  void take(Id auto& into) { into = static_cast<std::remove_reference_t<decltype(into)>>(id()); }
  template <class T>
  requires std::is_enum_v<T>
  void take(T& enumerator, Names names) { enumerator = static_cast<T>(index_in(names)); }
  /// From here on, errors call the present object by the name of its alternative.
  template <class... Ts>
  void take(std::variant<Ts...>& value, Names names) {
    using Emplace = void (*)(std::variant<Ts...>&);
    constexpr std::array<Emplace, sizeof...(Ts)> kEmplace = {
        [](std::variant<Ts...>& empty) { empty.template emplace<Ts>(); }...};
    const std::size_t index = index_in(names);
    if (!why_.empty()) return;
    kEmplace[index](value);
    frames_.back().name = names[index];
  }
  template <class T>
  requires std::is_class_v<T>
  void take(T& object) {
    if (!begins(Begin::kObject)) return refuse("is not an object");
    add_frame(
        {.visit = [](JsonReader& reader, void* it) { fields(reader, *static_cast<T*>(it)); },
         .into = &object});
  }
  template <class T>
  void take(std::vector<T>& list, const Length& length, const Range& range = {}) {
    if (!begins(Begin::kList)) return refuse("is not a list");
    const auto take_item = [](JsonReader& reader, void* into) {
      T& item = static_cast<std::vector<T>*>(into)->emplace_back();
      if constexpr (std::integral<T>) {
        reader.take(item, reader.frames_.back().range);
      } else {
        reader.take(item);
      }
    };
    add_frame(
        {.visit = take_item,
         .into = &list,
         .is_list = true,
         .items_max = length.max,
         .range = range});
  }

  bool begins(Begin what) const {
    const auto* const begin = std::get_if<Begin>(&value_);
    return begin != nullptr && *begin == what;
  }
  std::int64_t integer(const Range& range);
  std::uint64_t id();
  std::size_t index_in(Names names);

  /// Keeps the first error: the path to the present field, then `how`.
  void refuse(std::string_view how);
  std::string path() const;

  std::vector<Frame> frames_;
  std::string_view name_;  // of the present field, once it is found in the table
  std::string key_;        // of the present field, as the text has it
  Value value_;
  unsigned field_ = 0;      // of the table, that is visited
  unsigned skipped_ = 0;    // how deep in the value of an unknown field
  bool is_at_end_ = false;  // of an object
  Unknown unknown_;
  std::string why_;  // it is refused
};

/// Reads `text` into `into`, which has its default value before. Fails with kProtocol, naming the
/// field that is missing, unknown, repeated, of another type or out of its limits.
template <class T>
Result<void> read_json(std::string_view text, T& into, std::string_view name, Unknown unknown) {
  return JsonReader(name, unknown).read(text, into);
}

}  // namespace ddprun::wire
