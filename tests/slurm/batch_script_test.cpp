#include "slurm/core/batch_script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const CommittedCode kCode{.commit = "c0ffee", .root = "/repo/.git/code/c0ffee", .folder = {}};

TEST(BatchScript, ChangesToTheCodeAfterItsSbatchLines) {
  EXPECT_EQ(
      with_code("#!/bin/bash\n#SBATCH --nodes=2\n\n# Why.\nsrun ddprun train.py\n", kCode).value(),
      "#!/bin/bash\n#SBATCH --nodes=2\n\n# Why.\n"
      "# Added by ddpctl submit: later edits do not affect this job.\n"
      "export GIT_COMMIT=c0ffee DDPRUN_CODE=/repo/.git/code/c0ffee\n"
      "cd -- /repo/.git/code/c0ffee || exit 78\n"
      "\n"
      "srun ddprun train.py\n");
}

TEST(BatchScript, BeginsWhereItWasSubmitted) {
  CommittedCode code = kCode;
  code.root = "/it's";
  code.folder = "a b";
  const std::string script = with_code("#!/bin/sh\ntrue\n", code).value();
  EXPECT_THAT(script, HasSubstr("DDPRUN_CODE='/it'\\''s'\n"));
  EXPECT_THAT(script, HasSubstr("cd -- '/it'\\''s/a b' ||"));
}

TEST(BatchScript, MayLackItsLastLineEnd) {
  EXPECT_THAT(with_code("#!/bin/sh", kCode).value(), HasSubstr("#!/bin/sh\n# Added"));
}

TEST(BatchScript, IsForAShell) {
  for (const char* const first :
       {"#!/bin/sh", "#!/bin/bash -l", "#! /usr/bin/env bash", "#!/bin/zsh"}) {
    EXPECT_TRUE(with_code(std::string(first) + "\ntrue\n", kCode)) << first;
  }
  EXPECT_THAT(with_code("#!/usr/bin/env python3\n", kCode).error().detail, HasSubstr("'python3'"));
  EXPECT_THAT(with_code("#!/bin/csh\n", kCode).error().detail, HasSubstr("not a shell"));
  EXPECT_THAT(with_code("srun hostname\n", kCode).error().detail, HasSubstr("#!/bin/bash"));
}

TEST(BatchScript, DoesNotSayItselfWhereItRuns) {
  EXPECT_THAT(
      with_code("#!/bin/sh\n#SBATCH -D /elsewhere\n", kCode).error().detail,
      HasSubstr("--chdir '/elsewhere'"));
}

class Output : public testing::Test {
 protected:
  void type(const std::vector<std::string>& arguments) {
    sources_.typed = parse_sbatch(arguments).value();
  }
  void write(const std::vector<std::string>& arguments) {
    sources_.lines = parse_sbatch(arguments).value();
  }
  void set(const char* name, const char* value) { sources_.environment[name] = value; }

  /// With the job's id as "<id>".
  Result<std::vector<std::string>> folders() const {
    const auto folders = output_folders(sources_);
    if (!folders) return folders.error();
    std::vector<std::string> names;
    for (const OutputFolder& folder : *folders)
      names.push_back(folder.with_id("<id>"));
    return names;
  }

  OutputSources sources_{
      .typed = {}, .environment = {}, .lines = {}, .script_name = "job.sh", .user = "ann"};
};

TEST_F(Output, HasItsFoldersMade) {
  write({"--output=log/%x-%j.out", "-e", "/abs/err/%A_%a.err"});
  EXPECT_THAT(folders().value(), ElementsAre("log/", "/abs/err/"));
}

TEST_F(Output, NeedsNoneInTheFolderOfTheJob) {
  write({"--output=%x-%j.out"});
  EXPECT_THAT(folders().value(), IsEmpty());
}

TEST_F(Output, IsThatOfTheCommandLineThenOfTheEnvironmentThenOfTheScript) {
  write({"--output=script/o"});
  EXPECT_THAT(folders().value(), ElementsAre("script/"));
  set("SBATCH_OUTPUT", "environment/o");
  EXPECT_THAT(folders().value(), ElementsAre("environment/"));
  type({"-o", "typed/o"});
  EXPECT_THAT(folders().value(), ElementsAre("typed/"));
}

TEST_F(Output, KnowsTheNamesOfUserAndJob) {
  write({"--output=%u/%x/100%%/o"});
  EXPECT_THAT(folders().value(), ElementsAre("ann/job.sh/100%/"));
  set("SBATCH_JOB_NAME", "try");
  EXPECT_THAT(folders().value(), ElementsAre("ann/try/100%/"));
  sources_.environment.clear();
  sources_.script_name.clear();
  EXPECT_THAT(folders().value(), ElementsAre("ann/wrap/100%/"));
}

TEST_F(Output, IsTakenAsItIsAfterABackslash) {
  write({"--output=\\%x/o"});
  EXPECT_THAT(folders().value(), ElementsAre("%x/"));
}

TEST_F(Output, HasAFolderNamedByTheJobMadeOnceTheIdIsKnown) {
  write({"--output=checkpoints/%j/out.txt", "--error=%A/e"});
  EXPECT_THAT(folders().value(), ElementsAre("checkpoints/<id>/", "<id>/"));
}

TEST_F(Output, IsRefusedInAFolderThatCannotBeMadeInTime) {
  const auto complaint = [this](const std::vector<std::string>& arguments) {
    write(arguments);
    const auto made = folders();
    return made ? "accepted" : made.error().detail;
  };
  EXPECT_THAT(complaint({"--error=a/%4j/out.txt"}), HasSubstr("--error: 'a/%4j/out.txt'"));
  EXPECT_THAT(complaint({"--output=%N/out.txt"}), HasSubstr("known only when the job runs"));
  EXPECT_THAT(complaint({"--output=%j/o", "--array=1-3"}), HasSubstr("each element of --array"));
  EXPECT_THAT(complaint({"--output=%j/o", "-W"}), HasSubstr("--wait would wait"));
  EXPECT_THAT(complaint({"--output=%j/o", "-Q"}), HasSubstr("--quiet hides the job's id"));
  EXPECT_EQ(complaint({"--output=%j/o", "--wait-all-nodes=1"}), "accepted");
  set("SBATCH_WAIT", "1");
  EXPECT_THAT(complaint({"--output=%j/o"}), HasSubstr("--wait would wait"));
}

}  // namespace
}  // namespace ddprun
