#include "base/parse.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddprun {
namespace {

constexpr double kSecondsMax = 10.0 * 365 * 24 * 3600;
constexpr std::string_view kBlanks = " \t\r\n\v\f";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_in_any_case(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, lower, lower);
}

}  // namespace

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  const auto is = [text](std::string_view word) { return equal_in_any_case(text, word); };
  constexpr std::array<std::string_view, 6> kTrue = {"1", "true", "t", "yes", "y", "on"};
  constexpr std::array<std::string_view, 6> kFalse = {"0", "false", "f", "no", "n", "off"};
  if (std::ranges::any_of(kTrue, is)) return true;
  if (std::ranges::any_of(kFalse, is)) return false;
  return std::nullopt;
}

std::optional<Duration> parse_seconds(std::string_view text) {
  const auto seconds = parse_double(text);
  if (!seconds || *seconds < 0 || *seconds > kSecondsMax) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

}  // namespace ddprun
