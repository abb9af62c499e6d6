#include "launcher/flags/core/arguments.hpp"

#include "base/format_error.hpp"

#include <utility>

namespace ddprun {
namespace {

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
}

/// Takes the quoted text at the start of `rest` and leaves what follows it. False: no closing
/// quote.
bool take_quoted(std::string_view& rest, std::string& argument) {
  const char quote = rest.front();
  for (std::size_t at = 1; at < rest.size(); ++at) {
    if (rest[at] == quote) {
      rest.remove_prefix(at + 1);
      return true;
    }
    const char next = at + 1 < rest.size() ? rest[at + 1] : '\0';
    const bool is_escape = quote == '"' && rest[at] == '\\' &&
                           std::string_view("\"\\$`").find(next) != std::string_view::npos;
    if (is_escape) ++at;
    argument += rest[at];
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> split_arguments(std::string_view line) {
  std::vector<std::string> arguments;
  bool in_argument = false;
  std::string_view rest = line;
  while (!rest.empty()) {
    const char letter = rest.front();
    if (is_blank(letter)) {
      in_argument = false;
      rest.remove_prefix(1);
      continue;
    }
    if (!std::exchange(in_argument, true)) arguments.emplace_back();
    if (letter == '\'' || letter == '"') {
      if (take_quoted(rest, arguments.back())) continue;
      return invalid_argument("a quote ({}) is not closed", letter);
    }
    if (letter == '\\') rest.remove_prefix(1);
    if (rest.empty()) {
      return invalid_argument("nothing follows the last backslash");
    }
    arguments.back() += rest.front();
    rest.remove_prefix(1);
  }
  return arguments;
}

}  // namespace ddprun
