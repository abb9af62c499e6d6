#include "launcher/flags/core/completion.hpp"

#include "base/parse.hpp"
#include "launcher/flags/core/flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace ddprun {
namespace {

/// The fixed values that a flag takes; empty if it takes anything else. Upper-case names are
/// placeholders.
std::vector<std::string_view> choices_of(const Flag& flag) {
  std::vector<std::string_view> choices;
  for (const std::string_view value : split(flag.value, '|')) {
    const bool has_capital =
        std::ranges::any_of(value, [](char byte) { return byte >= 'A' && byte <= 'Z'; });
    const bool is_fixed = !value.empty() && value.front() >= 'a' && value.front() <= 'z';
    if (is_fixed && !has_capital) choices.push_back(value);
  }
  return choices;
}

std::vector<std::string> spellings_of(const Flag& flag) {
  std::vector<std::string> spellings = {fmt::format("--{}", flag.name)};
  if (flag.letter != 0) spellings.push_back(fmt::format("-{}", flag.letter));
  return spellings;
}

std::string bash_script() {
  std::vector<std::string> all;
  std::vector<std::string> with_value;
  std::string cases;
  for (const Flag& flag : all_flags()) {
    const auto spellings = spellings_of(flag);
    all.insert(all.end(), spellings.begin(), spellings.end());
    if (flag.value.empty()) continue;
    with_value.insert(with_value.end(), spellings.begin(), spellings.end());
    const auto choices = choices_of(flag);
    if (choices.empty()) continue;
    cases += fmt::format(
        "    {}) choices='{}' ;;\n", fmt::join(spellings, "|"), fmt::join(choices, " "));
  }
  // bash splits at "=", so it is a word of its own. Options end at the script.
  return fmt::format(
      R"(_ddprun() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag= choices= at
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; ++at)); do
    case ${{COMP_WORDS[at]}} in
    {}) flag=${{COMP_WORDS[at]}}; [[ ${{COMP_WORDS[at + 1]}} != "=" ]] || ((++at)); ((++at)) ;;
    -*) flag= ;;
    *) return ;;
    esac
  done
  if ((at == COMP_CWORD)) && [[ $word != "=" ]]; then
    [[ $word != -* ]] || COMPREPLY=($(compgen -W '{}' -- "$word"))
    return
  fi
  [[ $word != "=" ]] || word=
  case $flag in
{}  esac
  [[ -z $choices ]] || COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -o default -F _ddprun ddprun
)",
      fmt::join(with_value, "|"),
      fmt::join(all, " "),
      cases);
}

/// Escaped as zsh's _arguments expects it within quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (byte == '\'') {
      out += "'\\''";
      continue;
    }
    if (byte == '[' || byte == ']' || byte == ':' || byte == '\\') out += '\\';
    out += byte;
  }
  return out;
}

std::string zsh_script() {
  std::string flags;
  for (const Flag& flag : all_flags()) {
    const auto choices = choices_of(flag);
    const std::string action =
        choices.empty() ? "_files" : fmt::format("({})", fmt::join(choices, " "));
    for (const std::string& spelling : spellings_of(flag)) {
      const std::string value =
          flag.value.empty() ? "" : fmt::format(":{}:{}", escaped(flag.value), action);
      const std::string_view equals = flag.value.empty() ? "" : spelling.size() > 2 ? "=" : "+";
      flags += fmt::format("    '{}{}[{}]{}' \\\n", spelling, equals, escaped(flag.help), value);
    }
  }
  return fmt::format(
      R"(#compdef ddprun
_ddprun() {{
  _arguments -S -A '-*' \
{}    '1:script:_files' \
    '*:argument:_files'
}}
if [[ $funcstack[1] == _ddprun ]]; then
  _ddprun "$@"
else
  compdef _ddprun ddprun
fi
)",
      flags);
}

}  // namespace

std::string completion_script(std::string_view shell) {
  return shell == "zsh" ? zsh_script() : bash_script();
}

}  // namespace ddprun
