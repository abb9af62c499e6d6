#include "slurm/core/sbatch_command.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

// Options that take no value, or only after '='. --dry-run belongs to ddpctl.
constexpr std::array<std::string_view, 29> kSwitches{
    "consolidate-segments",
    "contiguous",
    "dry-run",
    "exclusive",
    "external",
    "get-user-env",
    "help",
    "hold",
    "ignore-pbs",
    "nice",
    "no-kill",
    "no-requeue",
    "oom-kill-step",
    "overcommit",
    "oversubscribe",
    "parsable",
    "propagate",
    "quiet",
    "reboot",
    "requeue",
    "resv-ports",
    "share",
    "spread-job",
    "stepmgr",
    "test-only",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
};
constexpr std::string_view kSwitchLetters = "HOQVWhksuv";
constexpr std::string_view kNextPart = ":";  // separates the parts of a heterogeneous job

struct Known {
  std::string_view name;
  std::string_view shortest;  // shortest prefix that sbatch accepts
  char letter;
};
constexpr std::array<Known, 11> kKnown{{
    {.name = "output", .shortest = "ou", .letter = 'o'},
    {.name = "error", .shortest = "er", .letter = 'e'},
    {.name = "chdir", .shortest = "ch", .letter = 'D'},
    {.name = "job-name", .shortest = "j", .letter = 'J'},
    {.name = "wrap", .shortest = "wr", .letter = 0},
    {.name = "array", .shortest = "ar", .letter = 'a'},
    {.name = "hold", .shortest = "ho", .letter = 'H'},
    {.name = "parsable", .shortest = "pars", .letter = 0},
    {.name = "quiet", .shortest = "qu", .letter = 'Q'},
    {.name = "test-only", .shortest = "te", .letter = 0},
    {.name = "wait", .shortest = "wait", .letter = 'W'},
}};

/// sbatch takes any prefix that fits one name only; it refuses an ambiguous prefix itself.
bool is_switch(std::string_view given) {
  if (given == "wait") return true;  // there is also --wait-all-nodes, which takes a value
  return std::ranges::any_of(
      kSwitches, [given](std::string_view name) { return name.starts_with(given); });
}

std::string long_name(std::string_view given) {
  for (const Known& known : kKnown) {
    if (known.name.starts_with(given) && given.starts_with(known.shortest)) {
      return std::string(known.name);
    }
  }
  return std::string(given);
}

std::string long_name(char letter) {
  const auto* const known = std::ranges::find(kKnown, letter, &Known::letter);
  return known == kKnown.end() ? std::string(1, letter) : std::string(known->name);
}

/// Reads the arguments in one pass.
class CommandReader {
 public:
  explicit CommandReader(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  Result<SbatchCommand> read() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_];
      const bool is_option = argument.size() > 1 && argument.starts_with('-');
      if (!is_option && argument != kNextPart) break;
      ++next_;
      if (argument == "--") break;
      if (argument == kNextPart) {
        command_.options.push_back({.name = argument, .value = {}, .arguments = {argument}});
        continue;
      }
      const auto taken = argument.starts_with("--") ? take_long(argument) : take_letters(argument);
      if (!taken) return taken.error();
    }
    command_.rest.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end());
    return std::move(command_);
  }

 private:
  Result<void> take_long(std::string_view argument) {
    const std::size_t equals = argument.find('=');
    const std::string_view name =
        argument.substr(2, equals == std::string_view::npos ? equals : equals - 2);
    SbatchOption option{.name = long_name(name), .value = {}, .arguments = {std::string(argument)}};
    if (equals != std::string_view::npos) {
      option.value = argument.substr(equals + 1);
    } else if (!is_switch(name)) {
      return take_value_of(std::move(option));
    }
    command_.options.push_back(std::move(option));
    return {};
  }

  Result<void> take_letters(std::string_view argument) {
    for (std::size_t at = 1; at < argument.size(); ++at) {
      SbatchOption option{.name = long_name(argument[at]), .value = {}, .arguments = {}};
      const bool is_last = at + 1 == argument.size();
      const bool has_value = kSwitchLetters.find(argument[at]) == std::string_view::npos;
      if (is_last || has_value) option.arguments = {std::string(argument)};
      if (has_value && is_last) return take_value_of(std::move(option));
      if (has_value) option.value = argument.substr(at + 1);
      command_.options.push_back(std::move(option));
      if (has_value) break;
    }
    return {};
  }

  Result<void> take_value_of(SbatchOption option) {
    if (next_ == arguments_.size()) {
      return invalid_argument("'{}' needs a value", excerpt(option.arguments.front()));
    }
    option.value = arguments_[next_];
    option.arguments.push_back(arguments_[next_]);
    ++next_;
    command_.options.push_back(std::move(option));
    return {};
  }

  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  SbatchCommand command_;
};

/// The words of an #SBATCH line: separated by blanks unless quoted; '#' begins a comment.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> arguments;
  bool in_argument = false;
  char quote = 0;
  for (const char byte : line) {
    const bool is_blank = byte == ' ' || byte == '\t' || byte == '\r';
    if (quote == 0 && is_blank) {
      in_argument = false;
      continue;
    }
    if (quote == 0 && byte == '#' && !in_argument) break;
    if (!std::exchange(in_argument, true)) arguments.emplace_back();
    if (quote == 0 && (byte == '"' || byte == '\'')) {
      quote = byte;
    } else if (byte == quote) {
      quote = 0;
    } else {
      arguments.back() += byte;
    }
  }
  return arguments;
}

}  // namespace

const SbatchOption* SbatchCommand::find(std::string_view name) const {
  const auto found = std::ranges::find(options.rbegin(), options.rend(), name, &SbatchOption::name);
  return found == options.rend() ? nullptr : &*found;
}

Result<SbatchCommand> parse_sbatch(const std::vector<std::string>& arguments) {
  return CommandReader(arguments).read();
}

std::size_t first_command(std::string_view script) {
  std::size_t at = 0;
  while (at < script.size()) {
    const std::size_t end = std::min(script.find('\n', at), script.size());
    const std::string_view line = trim(script.substr(at, end - at));
    if (!line.empty() && !line.starts_with('#')) break;
    at = std::min(end + 1, script.size());
  }
  return at;
}

Result<SbatchCommand> parse_sbatch_lines(std::string_view script) {
  constexpr std::string_view kMark = "#SBATCH";
  SbatchCommand all;
  int number = 0;
  for (const std::string_view line : split(script.substr(0, first_command(script)), '\n')) {
    ++number;
    if (!line.starts_with(kMark)) continue;
    auto found = parse_sbatch(words_of(line.substr(kMark.size())));
    if (!found) return with_context(fmt::format("line {}", number), found.error());
    std::ranges::move(found->options, std::back_inserter(all.options));
  }
  return all;
}

}  // namespace ddprun
