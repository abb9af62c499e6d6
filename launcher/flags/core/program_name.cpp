#include "launcher/flags/core/program_name.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace ddprun {
namespace {

using Arguments = std::span<const std::string>;

/// What is needed to read the command line of an interpreter.
struct Interpreter {
  std::string_view name;              // of its kind
  std::string_view takes_value;       // letters of options whose value may be the next argument
  std::string_view long_takes_value;  // long options of the same kind, with blanks around each
};

constexpr Interpreter kPython = {
    .name = "python", .takes_value = "WX", .long_takes_value = " --check-hash-based-pycs "};
constexpr Interpreter kShell = {
    .name = "sh", .takes_value = "oO", .long_takes_value = " --init-file --rcfile "};

std::string_view file_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  // Process substitution, `<(...)`: the number differs between nodes.
  if (path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")) return "/dev/fd";
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

const Interpreter* interpreter(std::string_view program) {
  constexpr std::array<std::string_view, 6> kShells = {"sh", "bash", "dash", "ash", "ksh", "zsh"};
  const std::string_view name = file_name(program);
  if (std::ranges::find(kShells, name) != kShells.end()) return &kShell;
  const std::string_view kind = name.substr(0, name.find_first_of("0123456789."));
  const std::string_view version = name.substr(kind.size());
  const bool is_version = version.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_version && (kind == "python" || kind == "pypy") ? &kPython : nullptr;
}

/// What a cluster of short options ("-um") runs; empty if the program comes later. Skips the value
/// of its last option.
std::string run_by_options(const Interpreter& of, std::string_view letters, Arguments& rest) {
  for (std::size_t at = 0; at < letters.size(); ++at) {
    const char letter = letters[at];
    const std::string_view value = letters.substr(at + 1);
    if (letter == 'c') return std::string(of.name) + " -c";
    if (letter == 's' && of.name == kShell.name) return std::string(of.name) + " -s";
    if (letter == 'm' && of.name == kPython.name) {
      const bool is_next = value.empty() && !rest.empty();
      return "-m " + (is_next ? rest.front() : std::string(value));
    }
    if (of.takes_value.find(letter) == std::string_view::npos) continue;
    if (value.empty() && !rest.empty()) rest = rest.subspan(1);
    break;
  }
  return {};
}

/// What an interpreter runs.
std::string run_by(const Interpreter& of, Arguments rest) {
  bool has_options = true;
  while (!rest.empty()) {
    const std::string_view argument = rest.front();
    rest = rest.subspan(1);
    const bool is_option =
        argument.starts_with('-') || (argument.starts_with('+') && &of == &kShell);
    if (!has_options || !is_option) return std::string(file_name(argument));
    if (argument == "-") break;  // its standard input
    if (argument == "--") {
      has_options = false;
    } else if (argument.starts_with("--")) {
      const std::string padded = ' ' + std::string(argument) + ' ';
      const bool takes_next = of.long_takes_value.find(padded) != std::string_view::npos;
      if (takes_next && !rest.empty()) rest = rest.subspan(1);
    } else {
      std::string found = run_by_options(of, argument.substr(1), rest);
      if (!found.empty()) return found;
    }
  }
  return std::string(of.name) + " -";
}

}  // namespace

std::string program_name(const Options& options) {
  const std::string& first = options.rest.front();
  if (options.runs == Runs::kModule) return "-m " + first;
  const bool may_be_interpreter = options.runs == Runs::kProgram || options.runs == Runs::kScript;
  const Interpreter* const found = may_be_interpreter ? interpreter(first) : nullptr;
  if (found != nullptr) return run_by(*found, Arguments(options.rest).subspan(1));
  return std::string(file_name(first));
}

std::string command_text(const Options& options) {
  std::string text = options.runs == Runs::kModule ? "-m" : "";
  for (const std::string& argument : options.rest) {
    text += (text.empty() ? "" : " ") + argument;
  }
  return text;
}

}  // namespace ddprun
