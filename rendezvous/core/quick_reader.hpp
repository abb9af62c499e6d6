#pragma once

// Reads a message that stands exactly as MessageWriter writes it, in one pass and without memory of
// its own; a visitor of message_fields.hpp, for message_json.cpp. It gives no reasons: whatever it
// does not take is read again by somebody slower. A leader with 1,000 nodes reads 2,000 heartbeats
// a second.

#include "rendezvous/core/message_fields.hpp"
#include "rendezvous/core/message_writer.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::wire {

class QuickReader {
 public:
  explicit QuickReader(std::string_view text) : rest_(text) {}

  /// The fields of an object whose beginning has been read, to its end, where the text ends.
  template <class T>
  bool read_rest(T& into) {
    fields(*this, into);
    take("}");
    return good_ && rest_.empty();
  }

  template <std::integral T>
  void operator()(std::string_view name, T& number, Range range) {
    take_name(name);
    take_number(number, range);
  }
  void operator()(std::string_view name, Duration& duration, Range range) {
    std::int64_t count = 0;
    (*this)(name, count, range);
    duration = Duration(count);
  }
  void operator()(std::string_view name, std::optional<int>& number, Range range) {
    if (has_name(name)) (*this)(name, number.emplace(), range);
  }
  void operator()(std::string_view name, bool& flag) {
    take_name(name);
    flag = rest_.starts_with('t');
    take(flag ? "true" : "false");
  }
  void operator()(std::string_view name, std::string& text, Length length) {
    take_name(name);
    const std::string_view inside = take_text();
    if (inside.size() > length.max) good_ = false;
    if (good_) text = inside;
  }
  void operator()(std::string_view name, Incarnation& incarnation) {
    take_name(name);
    keep(parse_incarnation(take_text()), incarnation);
  }
  void operator()(std::string_view name, WorkersState& state) {
    take_name(name);
    keep(parse_state(take_text()), state);
  }
  void operator()(std::string_view name, std::vector<int>& list, Length length, Range range) {
    take_list(name, length, [&] { take_number(list.emplace_back(), range); });
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, std::vector<T>& list, Length length) {
    take_list(name, length, [&] { take_object(list.emplace_back()); });
  }
  template <class T>
  void operator()(std::string_view name, std::optional<T>& value) {
    if (has_name(name)) (*this)(name, value.emplace());
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, T& value) {
    take_name(name);
    take_object(value);
  }

  void require(bool claim, std::string_view /*why*/) {
    if (!claim) good_ = false;
  }

 private:
  void take(std::string_view literal) {
    good_ = good_ && rest_.starts_with(literal);
    if (good_) rest_.remove_prefix(literal.size());
  }

  bool has_name(std::string_view name) const {
    std::string_view ahead = rest_;
    if (!is_first_ && ahead.starts_with(',')) ahead.remove_prefix(1);
    if (!ahead.starts_with('"')) return false;
    ahead.remove_prefix(1);
    return ahead.starts_with(name) && ahead.substr(name.size()).starts_with("\":");
  }

  void take_name(std::string_view name) {
    if (!std::exchange(is_first_, false)) take(",");
    take("\"");
    take(name);
    take("\":");
  }

  template <class T>
  void take_number(T& number, Range range) {
    if (!good_) return;
    std::int64_t read = 0;
    const char* const begin = rest_.data();
    const auto [stop, error] = std::from_chars(begin, begin + rest_.size(), read);
    // Another zero before it, or -0, is for the slower reader to judge.
    const bool odd = stop - begin > 1 && (*begin == '0' || (*begin == '-' && begin[1] == '0'));
    good_ = error == std::errc() && !odd && range.min <= read && read <= range.max;
    if (!good_) return;
    number = static_cast<T>(read);
    rest_.remove_prefix(static_cast<std::size_t>(stop - begin));
  }

  std::string_view take_text() {
    take("\"");
    const std::string_view text = rest_.substr(0, rest_.find('"'));
    good_ = good_ && is_plain_text(text);
    rest_.remove_prefix(text.size());
    take("\"");
    return text;
  }

  template <class T>
  void take_object(T& into) {
    take("{");
    const bool outer = std::exchange(is_first_, true);
    fields(*this, into);
    is_first_ = outer;
    take("}");
  }

  template <class TakeItem>
  void take_list(std::string_view name, Length length, TakeItem take_item) {
    take_name(name);
    take("[");
    std::size_t items = 0;
    while (good_ && !rest_.starts_with(']')) {
      if (items++ > 0) take(",");
      good_ = good_ && items <= length.max;
      if (good_) take_item();
    }
    take("]");
  }

  template <class T>
  void keep(const std::optional<T>& parsed, T& into) {
    if (!parsed) good_ = false;
    if (parsed) into = *parsed;
  }

  std::string_view rest_;
  bool good_ = true;
  bool is_first_ = false;  // the type stands before the first field
};

}  // namespace ddprun::wire
