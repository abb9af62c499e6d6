#include "agent/core/python_command.hpp"

#include <string_view>

namespace ddprun {
namespace {

bool is_python(const WorkerCommand& command) {
  if (!command.interpreter.empty()) return true;
  const std::string_view path = command.program;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kName = "python";
  return name.starts_with(kName) &&
         name.find_first_not_of("0123456789.", kName.size()) == std::string_view::npos;
}

}  // namespace

std::optional<int> interpreter_options(const WorkerCommand& command) {
  constexpr std::string_view kLetters = "bBdEIOPqsSuvx";
  if (!is_python(command)) return std::nullopt;
  const int count = static_cast<int>(command.arguments.size());
  for (int at = 0; at < count; ++at) {
    const std::string_view argument = command.arguments[static_cast<std::size_t>(at)];
    const bool has_value = at + 1 < count;
    if (argument == "-m" || argument == "-c") return has_value ? std::optional(at) : std::nullopt;
    if (!argument.starts_with('-')) return at;
    if (argument == "-W" || argument == "-X") {
      ++at;
    } else if (argument.starts_with("-W") || argument.starts_with("-X")) {
      continue;
    } else if (
        argument.size() < 2 || argument.find_first_not_of(kLetters, 1) != std::string_view::npos) {
      break;
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
