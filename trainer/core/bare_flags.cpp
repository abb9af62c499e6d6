#include "trainer/core/bare_flags.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kValues = {{
    {"--pretrained", kPretrainedAlone},
    {"--resume", kResumeAlone},
    {"--compile", kCompileAlone},
}};

/// Whether it is `name=value`, and not a path that contains "=".
bool is_override(std::string_view argument) {
  const std::size_t end = argument.find('=');
  return end != std::string_view::npos && end > 0 &&
         argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == end;
}

}  // namespace

std::vector<std::string> complete_bare_flags(const std::vector<std::string>& arguments) {
  std::vector<std::string> completed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--compile=") continue;
    completed.push_back(argument);
    const auto* const found = std::ranges::find(
        kValues, std::string_view(argument), &decltype(kValues)::value_type::first);
    if (found == kValues.end()) continue;
    const bool is_last = i + 1 == arguments.size();
    if (is_last || arguments[i + 1].starts_with('-') || is_override(arguments[i + 1])) {
      completed.back() += '=';
      completed.back() += found->second;
    }
  }
  return completed;
}

}  // namespace ddprun
