#include "launcher/flags/core/program_name.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

Options options_of(Runs runs, std::vector<std::string> rest) {
  Options options;
  options.runs = runs;
  options.rest = std::move(rest);
  return options;
}

std::string name(Runs runs, std::vector<std::string> rest) {
  return program_name(options_of(runs, std::move(rest)));
}

TEST(ProgramName, IsTheFileWithoutItsDirectory) {
  for (const char* const path : {"train.py", "./train.py", "/local/812/train.py"}) {
    EXPECT_EQ(name(Runs::kScript, {path, "--machine_rank", "1"}), "train.py");
    EXPECT_EQ(name(Runs::kRunPath, {path}), "train.py");
  }
  EXPECT_EQ(name(Runs::kScript, {"source_code/dir/"}), "dir");
  EXPECT_EQ(name(Runs::kScript, {"."}), ".");
  EXPECT_EQ(name(Runs::kScript, {"/"}), "/");
  EXPECT_EQ(name(Runs::kScript, {"x/train_${local_rank}.py"}), "train_${local_rank}.py");
  EXPECT_EQ(name(Runs::kProgram, {"numactl", "--cpunodebind=0", "python", "a.py"}), "numactl");
}

TEST(ProgramName, IsTheModule) {
  EXPECT_EQ(name(Runs::kModule, {"pkg.train", "x"}), "-m pkg.train");
}

TEST(ProgramName, IsTheScriptOfAnInterpreter) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"python", "train.py", "x.py"}, "train.py"},
      {{"/usr/bin/python3.12", "-u", "/x/train.py"}, "train.py"},
      {{"pypy3", "-W", "ignore", "-X", "dev", "train.py"}, "train.py"},
      {{"python", "-Wignore", "-uXdev", "train.py"}, "train.py"},
      {{"python", "--check-hash-based-pycs", "never", "train.py"}, "train.py"},
      {{"python", "-um", "pkg.train", "x"}, "-m pkg.train"},
      {{"python", "-mpkg.train"}, "-m pkg.train"},
      {{"python3", "-c", "import this", "train.py"}, "python -c"},
      {{"python3", "-", "train.py"}, "python -"},
      {{"python3"}, "python -"},
      {{"python3", "--", "-m.py"}, "-m.py"},
      {{"bash", "-ex", "x/train.sh"}, "train.sh"},
      {{"bash", "-o", "pipefail", "+x", "train.sh"}, "train.sh"},
      {{"bash", "--rcfile", "rc", "train.sh"}, "train.sh"},
      {{"/bin/sh", "-ec", "python train.py"}, "sh -c"},
      {{"zsh", "-s", "x"}, "sh -s"},
      {{"python-config", "x"}, "python-config"},
  };
  for (const auto& [rest, expected] : cases) {
    EXPECT_EQ(name(Runs::kProgram, rest), expected);
  }
}

TEST(ProgramName, IsTheSameOfAPipeOnAllNodes) {
  EXPECT_EQ(name(Runs::kScript, {"/dev/fd/63"}), name(Runs::kScript, {"/proc/self/fd/12"}));
}

TEST(CommandText, IsWhatWasTyped) {
  EXPECT_EQ(command_text(options_of(Runs::kModule, {"pkg.train", "-x"})), "-m pkg.train -x");
  EXPECT_EQ(
      command_text(options_of(Runs::kScript, {"x/train.py", "--lr", "1"})), "x/train.py --lr 1");
}

}  // namespace
}  // namespace ddprun
