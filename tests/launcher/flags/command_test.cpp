#include "launcher/flags/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

/// A directory with its own PATH, which contains only what a test puts there.
class Command : public testing::Test {
 public:
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

 protected:
  Command() {
    fs::create_directories(room_ / "bin");
    environment_["PATH"] = room_ / "bin";
  }
  ~Command() override { fs::remove_all(room_); }

  std::string file(const std::string& name, const std::string& content, bool executable = false) {
    const fs::path path = room_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
    using fs::perms;
    const perms mode = perms::owner_read | perms::owner_write;
    fs::permissions(path, executable ? mode | perms::owner_exec : mode);
    return path;
  }

  Result<WorkerCommand> resolve(Runs runs, std::vector<std::string> rest, int workers = 1) const {
    Options options;
    options.runs = runs;
    options.rest = std::move(rest);
    options.plan.workers = workers;
    return resolve_command(options, {.environment = environment_, .own_directory = own_directory_});
  }

  fs::path room_ =
      fs::temp_directory_path() / ("ddprun_command_test_" + std::to_string(::getpid()));
  Environment environment_;
  fs::path own_directory_ = room_ / "ddprun";
};

TEST_F(Command, RunsAScriptByThePythonOnPathUnbuffered) {
  const auto python = file("bin/python3", "", true);
  const auto script = file("train.py", "");
  const auto command = resolve(Runs::kScript, {script, "--lr", "1"});
  ASSERT_TRUE(command);
  EXPECT_EQ(command->program, python);
  EXPECT_THAT(command->arguments, ElementsAre("-u", script, "--lr", "1"));
  EXPECT_EQ(command->title, script);
}

TEST_F(Command, PrefersPythonExecThenTheEnvironmentThatDdprunIsPartOf) {
  file("bin/python3", "", true);
  const auto script = file("train.py", "");
  const auto venv = file("venv/bin/python", "", true);
  const auto asked = file("my/python", "", true);
  own_directory_ = room_ / "venv" / "bin";
  file("venv/pyvenv.cfg", "");
  EXPECT_EQ(resolve(Runs::kScript, {script})->program, venv);
  EXPECT_EQ(resolve(Runs::kScript, {script})->interpreter, venv);
  environment_["PYTHON_EXEC"] = asked;
  EXPECT_EQ(resolve(Runs::kScript, {script})->program, asked);
}

TEST_F(Command, TakesWhatThePathHasFirstWhateverWasActivatedBefore) {
  const auto script = file("train.py", "");
  file("left_over/bin/python", "", true);
  environment_["VIRTUAL_ENV"] = room_ / "left_over";
  environment_["CONDA_PREFIX"] = room_ / "left_over";
  const auto conda = file("conda/bin/python3", "", true);
  file("bin/python", "", true);
  environment_["PATH"] = (room_ / "conda/bin").string() + ":" + (room_ / "bin").string();
  EXPECT_EQ(resolve(Runs::kScript, {script})->program, conda);
}

TEST_F(Command, TakesAPythonThatOnlyLiesBesideDdprunForNoEnvironment) {
  const auto script = file("train.py", "");
  const auto on_path = file("bin/python", "", true);
  file("ddprun/python", "", true);
  EXPECT_EQ(resolve(Runs::kScript, {script})->program, on_path);
}

TEST_F(Command, LeavesAScriptInAPipeToPython) {
  const auto python = file("bin/python3", "", true);
  const std::string fifo = room_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(resolve(Runs::kScript, {fifo})->program, python);
}

TEST_F(Command, NeverFallsBackFromAnInterpreterThatWasAskedFor) {
  file("bin/python3", "", true);
  const auto script = file("train.py", "");
  environment_["PYTHON_EXEC"] = "/no/such/python";
  const auto missing = resolve(Runs::kScript, {script});
  EXPECT_THAT(missing.error().detail, HasSubstr("PYTHON_EXEC '/no/such/python'"));
}

TEST_F(Command, ChecksTheScriptOfEveryRank) {
  const auto python = file("bin/python3", "", true);
  file("train_0.py", "");
  const auto last = file("train_1.py", "");
  const std::string pattern = room_ / "train_${local_rank}.py";
  const auto command = resolve(Runs::kScript, {pattern, "x"}, 2);
  EXPECT_EQ(command->program, python);
  EXPECT_THAT(command->arguments, ElementsAre("-u", pattern, "x"));
  fs::remove(last);
  EXPECT_THAT(resolve(Runs::kScript, {pattern}, 2).error().detail, HasSubstr("train_1.py"));
}

TEST_F(Command, FindsTheProgramOfEveryRankOnPath) {
  const fs::path zeroth = file("bin/job0", "", true);
  file("bin/job1", "", true);
  EXPECT_EQ(
      resolve(Runs::kProgram, {"job${local_rank}"}, 2)->program,
      zeroth.parent_path() / "job${local_rank}");
}

TEST_F(Command, RunsAModule) {
  file("bin/python", "", true);
  EXPECT_THAT(
      resolve(Runs::kModule, {"pkg.train", "x"})->arguments,
      ElementsAre("-u", "-m", "pkg.train", "x"));
}

TEST_F(Command, RunsWhatIsNotPythonAsItIs) {
  const auto shell = file("job.sh", "#!/bin/sh\n", true);
  EXPECT_EQ(resolve(Runs::kScript, {shell, "x"})->program, shell);
  EXPECT_THAT(resolve(Runs::kScript, {shell, "x"})->arguments, ElementsAre("x"));
  EXPECT_EQ(resolve(Runs::kScript, {"/bin/true"})->program, "/bin/true");
}

TEST_F(Command, RunsAShebangOfPythonByOurPython) {
  const auto python = file("bin/python3", "", true);
  const auto script = file("train", "#!/usr/bin/env python3\n", true);
  EXPECT_EQ(resolve(Runs::kScript, {script})->program, python);
}

TEST_F(Command, LooksForAProgramOnPath) {
  const auto program = file("bin/job", "", true);
  EXPECT_EQ(resolve(Runs::kProgram, {"job"})->program, program);
  EXPECT_EQ(resolve(Runs::kScript, {"job", "x"})->program, program);
  EXPECT_EQ(resolve(Runs::kProgram, {"/bin/true", "x"})->program, "/bin/true");
}

TEST_F(Command, TellsWhatIsMissingAndWhatToDo) {
  const auto script = resolve(Runs::kScript, {"jbo"});
  EXPECT_TRUE(script.error().is(Errc::kNotFound));
  EXPECT_THAT(script.error().detail, HasSubstr("the working directory is"));
  const auto program = resolve(Runs::kProgram, {"jbo"});
  EXPECT_TRUE(program.error().is(Errc::kNotFound));
  EXPECT_THAT(program.error().detail, HasSubstr("'jbo' is not on PATH"));
}

TEST_F(Command, TellsWhatMayNotBeExecutedAndWhatToDo) {
  const auto shell = file("job.sh", "#!/bin/sh\n");
  for (const Runs runs : {Runs::kScript, Runs::kProgram}) {
    const auto command = resolve(runs, {shell});
    EXPECT_TRUE(command.error().is(Errc::kNotExecutable));
    EXPECT_THAT(command.error().detail, HasSubstr("chmod +x"));
  }
  const auto no_program = resolve(Runs::kProgram, {room_});
  EXPECT_TRUE(no_program.error().is(Errc::kNotExecutable));
  EXPECT_THAT(no_program.error().detail, HasSubstr("is a directory; name a file in it"));
  const auto directory = resolve(Runs::kScript, {room_});
  EXPECT_TRUE(directory.error().is(Errc::kNotExecutable));
  EXPECT_THAT(directory.error().detail, HasSubstr("__main__.py"));
}

TEST_F(Command, RunsAPathInAFreshInterpreter) {
  const auto python = file("bin/python3", "", true);
  const auto script = file("train.py", "");
  const auto command = resolve(Runs::kRunPath, {script, "x"});
  ASSERT_TRUE(command);
  EXPECT_EQ(command->program, python);
  EXPECT_EQ(command->arguments.at(1), "-c");
  EXPECT_EQ(command->arguments.at(3), script);
  EXPECT_EQ(command->arguments.at(4), "x");
  EXPECT_EQ(command->title, "run_script_path");
}

}  // namespace
}  // namespace ddprun
