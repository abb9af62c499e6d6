#pragma once

#include "base/time.hpp"
#include "rendezvous/core/json_fields.hpp"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::wire {

/// Appends `text` in quotes, cut to its length. Bytes that are not UTF-8 are replaced, and so are
/// control characters unless they are allowed.
void append_quoted(std::string& out, std::string_view text, const Length& length);

/// Writes a value by its table of fields.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  template <class T, class... Limits>
  void operator()(std::string_view name, const T& value, const Limits&... limits) {
    begin(name);
    write(value, limits...);
  }
  template <class T, class... Limits>
  void operator()(std::string_view name, const std::optional<T>& value, const Limits&... limits) {
    if (value) (*this)(name, *value, limits...);
  }
  template <class T, class... Limits>
  void nullable(std::string_view name, const std::optional<T>& value, const Limits&... limits) {
    if (value) return (*this)(name, *value, limits...);
    begin(name);
    out_ += "null";
  }
  template <class... Ts>
  void first(std::string_view name, const std::variant<Ts...>& value, Names names) {
    (*this)(name, value.index(), names);
  }
  void require(bool /*claim*/, std::string_view /*why*/) {}

  template <class T>
  requires std::is_class_v<T>
  void write(const T& value) {
    out_ += '{';
    fields(*this, value);
    out_ += '}';
  }

 private:
  void begin(std::string_view name) {
    if (out_.back() != '{') out_ += ',';
    out_.append(1, '"').append(name).append("\":");
  }

  void write(std::integral auto number, const Range& /*range*/) {
    const fmt::format_int digits(number);
    out_.append(digits.data(), digits.size());
  }
  void write(Duration duration, const Range& range) { write(duration.count(), range); }
  void write(Duration duration, Seconds /*unit*/) {
    fmt::format_to(std::back_inserter(out_), "{:#}", to_seconds(duration));
  }
  void write(bool flag) { out_ += flag ? "true" : "false"; }
  void write(const std::string& text, const Length& length) { append_quoted(out_, text, length); }
  void write(Id auto id) {
    fmt::format_to(std::back_inserter(out_), R"("{:016x}")", static_cast<std::uint64_t>(id));
  }
  template <class T>
  requires std::is_enum_v<T> || std::same_as<T, std::size_t>
  void write(T index, Names names) {
    out_.append(1, '"').append(names[static_cast<std::size_t>(index)]).append(1, '"');
  }
  template <class T, class... Limits>
  void write(const std::vector<T>& list, const Length& /*length*/, const Limits&... limits) {
    out_ += '[';
    for (const T& item : list) {
      if (out_.back() != '[') out_ += ',';
      write(item, limits...);
    }
    out_ += ']';
  }

  std::string& out_;
};

/// `value` as one JSON object.
template <class T>
std::string write_json(const T& value) {
  std::string text;
  JsonWriter(text).write(value);
  return text;
}

}  // namespace ddprun::wire
