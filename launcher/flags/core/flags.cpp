#include "launcher/flags/core/flags.hpp"

#include "base/format_error.hpp"
#include "base/nearest.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  return dashed;
}

/// "-r, --redirects", as in --help.
std::string spelling(const Flag& flag) {
  return flag.letter == 0 ? fmt::format("--{}", flag.name)
                          : fmt::format("-{}, --{}", flag.letter, flag.name);
}

Error unknown(std::string_view typed) {
  std::vector<std::string> names;
  for (const Flag& flag : all_flags())
    names.emplace_back(flag.name);
  // Compare without the dashes, which all names begin with.
  const std::string name = with_dashes(typed);
  const auto meant =
      nearest(name.substr(std::min(name.find_first_not_of('-'), name.size())), names);
  const std::string hint =
      meant ? fmt::format("did you mean --{}?", *meant)
            : std::string(
                  "ddprun --help lists all options; options of the script come after the script");
  return invalid_argument("unknown option '{}': {}", typed, hint);
}

Result<const Flag*> find_long(std::string_view typed) {
  const std::string name = with_dashes(typed.substr(2));
  std::vector<const Flag*> candidates;
  for (const Flag& flag : all_flags()) {
    if (flag.name == name || (!flag.alias.empty() && flag.alias == name)) return &flag;
    if (flag.name.starts_with(name)) candidates.push_back(&flag);
  }
  if (candidates.empty()) return unknown(typed);
  if (candidates.size() == 1) return candidates.front();
  std::vector<std::string> names;
  names.reserve(candidates.size());
  for (const Flag* flag : candidates)
    names.push_back(fmt::format("--{}", flag->name));
  return invalid_argument("ambiguous option '{}': it could be {}", typed, fmt::join(names, ", "));
}

Result<const Flag*> find_short(std::string_view typed) {
  for (const Flag& flag : all_flags()) {
    if (flag.letter != 0 && flag.letter == typed[1]) return &flag;
  }
  return unknown(typed);
}

/// Whether the argument after a flag can be its value. "-1" can: no flag looks like a number.
bool is_value(std::string_view argument) {
  return argument.size() < 2 || argument[0] != '-' || parse_double(argument).has_value();
}

/// An argument split into its parts: "--name=value", "-r3", "-r=3", "--name".
struct FlagArgument {
  const Flag* flag = nullptr;
  std::string spelled;               // "--name", for messages
  std::optional<std::string> value;  // attached to it
};

Result<FlagArgument> take_apart(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  FlagArgument apart{.flag = nullptr, .spelled = argument.substr(0, equals), .value = std::nullopt};
  if (argument.starts_with("--")) {
    auto found = find_long(apart.spelled);
    if (!found) return found.error();
    apart.flag = *found;
    if (equals != std::string::npos) apart.value = argument.substr(equals + 1);
    return apart;
  }
  auto found = find_short(argument);
  if (!found) return found.error();
  apart.flag = *found;
  apart.spelled = argument.substr(0, 2);
  if (argument.size() > 2) apart.value = argument.substr(equals == 2 ? 3 : 2);
  // Letters of switches cannot be combined, so "-nproc=3" is a typo, not -n with a value.
  if (apart.value && apart.flag->value.empty() && equals != 2) return unknown(argument);
  return apart;
}

/// Fills in from the environment what the command line leaves open.
Result<void> read_variables(const Environment& environment, CommandLine& line) {
  for (const Flag& flag : all_flags()) {
    const std::string variable = variable_of(flag);
    const auto found = environment.find(variable);
    if (variable.empty() || found == environment.end() || line.given.contains(flag.name)) continue;
    Given given{.text = found->second, .source = variable};
    if (flag.value.empty()) {
      const auto on = parse_bool(found->second);
      if (!on) {
        return invalid_argument(
            "{} '{}': expected 1 or 0, true or false, yes or no", variable, found->second);
      }
      if (!*on) continue;
      given.text = std::string("1");  // assigned directly, g++ 12 warns of an overlap at -O3
    }
    line.given.emplace(flag.name, std::move(given));
  }
  return {};
}

}  // namespace

std::string variable_of(const Flag& flag) {
  if (!flag.has_variable) return {};
  std::string name = "PET_";
  for (const char letter : flag.name) {
    name += letter == '-' ? '_' : static_cast<char>(letter >= 'a' ? letter - 'a' + 'A' : letter);
  }
  return name;
}

Result<CommandLine> read_command_line(
    std::span<const std::string> arguments, const Environment& environment) {
  CommandLine line;
  std::size_t at = 0;
  bool separated = false;
  for (; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument.size() < 2 || argument[0] != '-') break;  // the script
    if (argument == "--") {
      separated = true;
      ++at;
      break;
    }
    auto apart = take_apart(argument);
    if (!apart) return apart.error();
    const auto& [flag, spelled, value] = *apart;
    const bool is_question = flag->apply == nullptr;
    if (is_question && flag->value.empty()) {
      line.action = flag->name == "help" ? Action::kHelp : Action::kVersion;
      return line;
    }
    const bool takes_value = !flag->value.empty();
    if (!takes_value && value) {
      return invalid_argument("{} takes no value, but '{}' was given", spelled, *value);
    }
    Given given{.text = value.value_or("1"), .source = spelled};
    if (takes_value && !value) {
      if (at + 1 == arguments.size() || !is_value(arguments[at + 1])) {
        return invalid_argument("{} needs a value: {}", spelled, flag->value);
      }
      given.text = arguments[++at];
    }
    if (is_question) {
      if (given.text != "bash" && given.text != "zsh") {
        return invalid_argument("{} '{}': expected bash or zsh", spelled, given.text);
      }
      line.action = Action::kCompletion;
      line.shell = std::move(given.text);
      return line;
    }
    line.given.insert_or_assign(flag->name, std::move(given));  // the last one counts
  }
  line.rest.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  // As in argparse, and so in torchrun: the first "--" is dropped directly before or after the
  // script.
  if (!separated && line.rest.size() > 1 && line.rest[1] == "--") {
    line.rest.erase(line.rest.begin() + 1);
  }
  auto const read = read_variables(environment, line);
  if (!read) return read.error();
  return line;
}

std::string help_text() {
  std::string text =
      "usage: ddprun [options] script [arguments of the script]\n\n"
      "Start the workers of a distributed job on this machine, watch them, and restart all of "
      "them\n"
      "if one fails. Flags and environment are torchrun's. Names may be abbreviated, and spelled\n"
      "with underscores. A variable is read if its flag is not given.\n\n"
      "examples:\n"
      "  ddprun --standalone --nproc-per-node 4 --max-restarts 3 train.py --epochs 10\n"
      "  ddprun --nnodes 2 --node-rank 0 --master-addr node0 --nproc-per-node 4 train.py\n"
      "  ddprun --nnodes 2:4 --rdzv-backend c10d --rdzv-endpoint node0 --nproc-per-node gpu "
      "train.py\n"
      "  srun --ntasks-per-node=1 ddprun train.py\n\n"
      "Python is $PYTHON_EXEC, else the Python of the environment (venv or conda) whose bin has\n"
      "ddprun, else the first python or python3 on PATH.\n";
  std::string_view group;
  for (const Flag& flag : all_flags()) {
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += fmt::format("  {}{}{}\n", spelling(flag), flag.value.empty() ? "" : " ", flag.value);
    text += fmt::format("      {}\n", flag.help);
    if (!flag.alias.empty()) text += fmt::format("      in Accelerate: --{}\n", flag.alias);
    const std::string variable = variable_of(flag);
    if (!flag.initial.empty()) {
      text += fmt::format(
          "      default {}{}{}\n", flag.initial, variable.empty() ? "" : "; ", variable);
    }
  }
  text +=
      "\nExit status: 0 if every worker exited with 0, else that of the first worker that failed\n"
      "(128+n for signal n); 2 bad usage, 70 a bug in ddprun, 75 try again,\n"
      "78 bad --grid file, 126 not executable, 127 not found.\n";
  return text;
}

}  // namespace ddprun
