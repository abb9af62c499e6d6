// --help and the manual have the same flags as the parser.

#include "base/file.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/flags.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

using testing::HasSubstr;

std::string manual() {
  const auto text = read_file(DDPRUN_MANUAL, 1'000'000);
  return text ? *text : "";
}

TEST(Help, TellsEveryFlagWithDefaultAndVariable) {
  const std::string help = help_text();
  for (const Flag& flag : all_flags()) {
    EXPECT_THAT(help, HasSubstr(fmt::format("--{}", flag.name)));
    EXPECT_THAT(help, HasSubstr(variable_of(flag)));
    EXPECT_THAT(help, HasSubstr(std::string(flag.help)));
  }
}

TEST(Help, AndTheManualTellWhatAccelerateCallsAFlag) {
  const std::string help = help_text();
  const std::string text = manual();
  for (const Flag& flag : all_flags()) {
    if (flag.alias.empty()) continue;
    EXPECT_THAT(help, HasSubstr(fmt::format("in Accelerate: --{}\n", flag.alias)));
    EXPECT_THAT(text, HasSubstr(fmt::format("`--{}`", flag.alias)));
  }
}

TEST(Help, HasExamplesThatCanBeTyped) {
  const std::string help = help_text();
  int examples = 0;
  for (const std::string_view line : split(help, '\n')) {
    const std::size_t at = line.find("ddprun -");
    if (!line.starts_with("  ") || at == std::string_view::npos) continue;
    std::vector<std::string> arguments;
    for (const std::string_view word : split(line.substr(at + sizeof "ddprun"), ' '))
      arguments.emplace_back(word);
    EXPECT_TRUE(read_command_line(arguments, {})) << line;
    ++examples;
  }
  EXPECT_EQ(examples, 3);
}

TEST(Help, TellsWhichPythonRunsAndHowManyWorkersWithinSrun) {
  const std::string help = help_text();
  EXPECT_THAT(
      help,
      HasSubstr(
          "Python is $PYTHON_EXEC, else the Python of the environment (venv or conda) whose bin "
          "has\nddprun, else the first python or python3 on PATH.\n"));
  const std::size_t at = help.find("--nproc-per-node N|cpu|gpu|auto\n");
  ASSERT_NE(at, std::string::npos);
  const std::string flag = help.substr(at, help.find("\n  -", at) - at);
  EXPECT_THAT(
      flag,
      HasSubstr("In a Slurm step the default is the step's GPUs on this node, else its CPUs.\n"));
}

TEST(Manual, HasARowForEveryFlagWithTypeDefaultAndVariable) {
  const std::string text = manual();
  for (const Flag& flag : all_flags()) {
    const std::string letter = flag.letter == 0 ? "" : fmt::format("`-{}` ", flag.letter);
    const std::string row = fmt::format("\n| {}`--{}` | ", letter, flag.name);
    const std::size_t at = text.find(row);
    ASSERT_NE(at, std::string::npos) << "docs/reference.md lacks a row for --" << flag.name;
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    const std::string variable = variable_of(flag);
    if (!variable.empty() && !flag.initial.empty()) {
      EXPECT_THAT(line, HasSubstr("`" + variable + "`"));
    }
    EXPECT_THAT(line, HasSubstr(std::string(flag.initial)));
  }
}

TEST(Manual, HasNoRowForAFlagThatDoesNotExist) {
  const std::string text = manual();
  for (std::size_t at = 0; (at = text.find("\n| `--", at)) != std::string::npos; ++at) {
    const std::size_t name = at + 4;
    const std::string flag = text.substr(name, text.find('`', name) - name);
    const auto line = read_command_line(std::vector<std::string>{flag, "x"}, {});
    EXPECT_TRUE(line || !line.error().detail.starts_with("unknown option")) << flag;
  }
}

}  // namespace
}  // namespace ddprun
