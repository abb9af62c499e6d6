#include "trainer/core/python_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ddprun {
namespace {

std::string repr_of(const ArgumentValue& value) {
  struct Visitor {
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return python_repr(number); }
    std::string operator()(const std::string& text) const { return python_repr(text); }
  };
  return std::visit(Visitor(), value);
}

std::string escaped(char letter) {
  constexpr unsigned char kFirstPrintable = 0x20;
  constexpr unsigned char kDelete = 0x7f;
  const auto byte = static_cast<unsigned char>(letter);
  switch (letter) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (byte < kFirstPrintable || byte == kDelete) return fmt::format("\\x{:02x}", byte);
  return {letter};
}

}  // namespace

std::string python_fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  return fmt::format("{:.{}f}", value, digits);
}

std::string python_percent(double fraction, int digits) {
  constexpr double kPercent = 100;
  return python_fixed(fraction * kPercent, digits) + "%";
}

std::string python_grouped(std::int64_t value) {
  constexpr std::size_t kGroup = 3;
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + kGroup; at -= kGroup) {
    text.insert(at - kGroup, 1, ',');
  }
  return text;
}

std::string python_repr(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  const bool is_whole = text.find_first_of(".ein") == std::string::npos;
  if (is_whole) text += ".0";
  return text;
}

std::string python_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string quoted(1, quote);
  for (const char letter : text) {
    if (letter == quote) quoted += '\\';
    quoted += escaped(letter);
  }
  return quoted + quote;
}

std::string python_namespace(const Arguments& arguments) {
  std::string text = "Namespace(";
  for (const auto& [name, value] : arguments) {
    if (text.back() != '(') text += ", ";
    text += fmt::format("{}={}", name, repr_of(value));
  }
  return text + ")";
}

}  // namespace ddprun
