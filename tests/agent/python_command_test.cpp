#include "agent/core/python_command.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

std::optional<int> options_of(
    std::vector<std::string> arguments, std::string program = "/bin/python3") {
  WorkerCommand command;
  command.program = std::move(program);
  command.arguments = std::move(arguments);
  return interpreter_options(command);
}

TEST(InterpreterOptions, EndAtTheScriptTheModuleOrTheText) {
  EXPECT_EQ(options_of({"-u", "train.py", "-u"}), 1);
  EXPECT_EQ(options_of({"train.py"}), 0);
  EXPECT_EQ(options_of({"-u", "-m", "train"}), 1);
  EXPECT_EQ(options_of({"-u", "-c", "print()"}), 1);
  EXPECT_EQ(options_of({"-uB", "-W", "ignore", "-Xdev", "-X", "importtime", "t.py", "-X"}), 6);
}

TEST(InterpreterOptions, OfAnotherProgramAreNotKnown) {
  EXPECT_EQ(options_of({"train.py"}, "/bin/bash"), std::nullopt);
  EXPECT_EQ(options_of({"train.py"}, "/bin/cpython"), std::nullopt);
  EXPECT_EQ(options_of({"train.py"}, "/bin/python_script.sh"), std::nullopt);
  EXPECT_EQ(options_of({"train.py"}, "/bin/python3.12"), 0);
}

TEST(InterpreterOptions, AreNotKnownIfNoFileModuleOrTextFollows) {
  EXPECT_EQ(options_of({}), std::nullopt);
  EXPECT_EQ(options_of({"-u"}), std::nullopt);
  EXPECT_EQ(options_of({"-"}), std::nullopt);
  EXPECT_EQ(options_of({"-m"}), std::nullopt);
  EXPECT_EQ(options_of({"-um", "train"}), std::nullopt);
  EXPECT_EQ(options_of({"-i", "train.py"}), std::nullopt);
  EXPECT_EQ(options_of({"--version"}), std::nullopt);
  EXPECT_EQ(options_of({"-X", "dev"}), std::nullopt);
}

}  // namespace
}  // namespace ddprun
