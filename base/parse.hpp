#pragma once

// Text becomes values here, at the edge, once.

#include "base/time.hpp"

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A whole decimal number: optional minus, digits, nothing before or after; none if it does not fit
/// in T.
template <std::integral T>
std::optional<T> parse_int(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// A finite decimal number such as "0.1", "1e-3" or "30".
std::optional<double> parse_double(std::string_view text);

/// 1/0, true/false, t/f, yes/no, y/n, on/off, in any case.
std::optional<bool> parse_bool(std::string_view text);

/// Seconds as a number >= 0, at most ten years.
std::optional<Duration> parse_seconds(std::string_view text);

/// `text` without blanks at either end.
std::string_view trim(std::string_view text);

/// The pieces between `separator`; an empty text has one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace ddprun
