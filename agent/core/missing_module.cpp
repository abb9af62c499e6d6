#include "agent/core/missing_module.hpp"

#include "base/parse.hpp"

#include <algorithm>

namespace ddprun {
namespace {

/// The name after "No module named " in `line`, up to the first byte that no name contains.
std::string_view name_in(std::string_view line) {
  constexpr std::string_view kSaid = "No module named ";
  const std::size_t at = line.rfind(kSaid);
  if (at == std::string_view::npos) return {};
  std::string_view name = line.substr(at + kSaid.size());
  if (name.starts_with('\'')) name.remove_prefix(1);  // `python -m` prints no quotes
  return name.substr(0, name.find_first_of(".'; "));
}

}  // namespace

std::string missing_module(std::string_view text) {
  const auto lines = split(trim(text), '\n');
  const std::string_view name = lines.empty() ? std::string_view() : name_in(lines.back());
  const auto is_in_names = [](char byte) {
    const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    return is_letter || (byte >= '0' && byte <= '9') || byte == '_';
  };
  return std::ranges::all_of(name, is_in_names) ? std::string(name) : std::string();
}

}  // namespace ddprun
