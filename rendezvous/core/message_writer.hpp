#pragma once

// Writes one message as JSON; a visitor of message_fields.hpp, for message_json.cpp.

#include "rendezvous/core/message_fields.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::wire {

constexpr bool is_printable(char byte) {
  return static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7F;
}

/// Whether `byte` stands for itself in a JSON text, whatever stands around it.
constexpr bool is_plain(char byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/// The same of each byte. Fast: an offer to each of a thousand nodes has the names of all of them.
bool is_plain_text(std::string_view text);

/// Appends `text` in quotes, with what cannot be sent replaced, cut to at most `bytes_max`.
void append_quoted(std::string& out, std::string_view text, std::size_t bytes_max);

/// 16 small hex digits: a JSON number of 64 bits is not exact in every reader.
std::optional<Incarnation> parse_incarnation(std::string_view text);
std::optional<WorkersState> parse_state(std::string_view text);

class MessageWriter {
 public:
  /// `type` "": the object has none.
  template <class T>
  void write(const T& value, std::string_view type) {
    text_ += '{';
    if (!type.empty()) fmt::format_to(std::back_inserter(text_), R"("type":"{}")", type);
    fields(*this, value);
    text_ += '}';
  }

  std::string take() { return std::move(text_); }

  void operator()(std::string_view name, std::integral auto number, Range /*range*/) {
    put(name);
    put_number(number);
  }
  void operator()(std::string_view name, Duration duration, Range range) {
    (*this)(name, duration.count(), range);
  }
  void operator()(std::string_view name, const std::optional<int>& number, Range range) {
    if (number) (*this)(name, *number, range);
  }
  void operator()(std::string_view name, const bool& flag) {
    put(name);
    text_ += flag ? "true" : "false";
  }
  void operator()(std::string_view name, const std::string& text, Length length) {
    put(name);
    append_quoted(text_, text, length.max);
  }
  void operator()(std::string_view name, const Incarnation& incarnation) {
    put(name);
    fmt::format_to(
        std::back_inserter(text_), R"("{:016x}")", static_cast<std::uint64_t>(incarnation));
  }
  void operator()(std::string_view name, const WorkersState& state) {
    put(name);
    fmt::format_to(
        std::back_inserter(text_), R"("{}")", kWorkersStates[static_cast<std::size_t>(state)]);
  }
  void operator()(
      std::string_view name, const std::vector<int>& list, Length /*length*/, Range /*range*/) {
    put(name);
    text_ += '[';
    for (const int item : list) {
      if (text_.back() != '[') text_ += ',';
      put_number(item);
    }
    text_ += ']';
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, const std::vector<T>& list, Length /*length*/) {
    put(name);
    text_ += '[';
    for (const T& item : list) {
      if (text_.back() != '[') text_ += ',';
      write(item, "");
    }
    text_ += ']';
  }
  template <class T>
  void operator()(std::string_view name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(std::string_view name, const T& value) {
    put(name);
    write(value, "");
  }

  void require(bool /*claim*/, std::string_view /*why*/) {}  // of those who read

 private:
  void put(std::string_view name) {
    if (text_.back() != '{') text_ += ',';
    text_.append(1, '"').append(name).append("\":");
  }
  void put_number(std::int64_t number) {
    const fmt::format_int digits(number);
    text_.append(digits.data(), digits.size());
  }

  std::string text_;
};

}  // namespace ddprun::wire
