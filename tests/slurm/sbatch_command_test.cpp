#include "slurm/core/sbatch_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Arguments = std::vector<std::string>;

std::string value_of(const SbatchCommand& command, const char* name) {
  const SbatchOption* const option = command.find(name);
  return option == nullptr ? "(none)" : option->value;
}

TEST(SbatchCommand, BeginsWithOptionsAndEndsAtTheScript) {
  const auto command = parse_sbatch({"-N2", "--time", "10", "job.sh", "-N", "--dry-run"}).value();
  EXPECT_THAT(command.rest, ElementsAre("job.sh", "-N", "--dry-run"));
  ASSERT_EQ(command.options.size(), 2U);
  EXPECT_EQ(command.options[0], (SbatchOption{.name = "N", .value = "2", .arguments = {"-N2"}}));
  EXPECT_EQ(
      command.options[1],
      (SbatchOption{.name = "time", .value = "10", .arguments = {"--time", "10"}}));
}

TEST(SbatchCommand, KnowsWhichOptionsTakeNoValue) {
  for (const char* const word :
       {"--hold",
        "--test-only",
        "--test",
        "--wait",
        "--exclusive",
        "--exclusive=user",
        "--parsable",
        "-H",
        "-QW",
        "--requeue",
        "--propagate",
        "--nice",
        "--nice=5"}) {
    SCOPED_TRACE(word);
    EXPECT_THAT(parse_sbatch({word, "job.sh"}).value().rest, ElementsAre("job.sh"));
  }
}

TEST(SbatchCommand, GivesAValueToAnyOtherOption) {
  for (const char* const word :
       {"--wait-all-nodes", "--of-a-later-version", "-N", "-Ho", "--nodes"}) {
    SCOPED_TRACE(word);
    EXPECT_THAT(parse_sbatch({word, "1", "job.sh"}).value().rest, ElementsAre("job.sh"));
  }
}

TEST(SbatchCommand, CallsAnOptionByItsLongNameHoweverItIsWritten) {
  for (const Arguments& arguments :
       {Arguments{"-o", "x"},
        {"-ox"},
        {"--output", "x"},
        {"--output=x"},
        {"--out", "x"},
        {"-Hox"}}) {
    SCOPED_TRACE(arguments.front());
    EXPECT_EQ(value_of(parse_sbatch(arguments).value(), "output"), "x");
  }
  EXPECT_EQ(value_of(parse_sbatch({"-D", "/x"}).value(), "chdir"), "/x");
  EXPECT_EQ(
      value_of(parse_sbatch({"--overcommit", "--open-mode=append"}).value(), "output"), "(none)");
}

TEST(SbatchCommand, HasTheLastOfSeveralOptions) {
  EXPECT_EQ(value_of(parse_sbatch({"-oa", "--output=b"}).value(), "output"), "b");
}

TEST(SbatchCommand, HandsOnEachWordOnce) {
  const Arguments arguments{"-Hv", "-QJ", "name", ":", "--nodes=2", "-p", "batch"};
  Arguments handed_on;
  for (const SbatchOption& option : parse_sbatch(arguments).value().options) {
    handed_on.insert(handed_on.end(), option.arguments.begin(), option.arguments.end());
  }
  EXPECT_EQ(handed_on, arguments);
}

TEST(SbatchCommand, EndsItsOptionsAtTwoDashes) {
  EXPECT_THAT(parse_sbatch({"--", "-odd-name.sh"}).value().rest, ElementsAre("-odd-name.sh"));
}

TEST(SbatchCommand, RefusesAnOptionThatLacksItsValue) {
  EXPECT_THAT(parse_sbatch({"-N2", "--time"}).error().detail, HasSubstr("'--time'"));
}

TEST(SbatchLines, CountUpToTheFirstCommand) {
  const auto lines = parse_sbatch_lines(
      "#!/bin/bash\n"
      "# a remark\n"
      "#SBATCH --output=log/%j.out -J 'my job'  # and why\n"
      "\n"
      "#SBATCH\t--error \"log/e r r\"\n"
      "set -e\n"
      "#SBATCH --output=late\n");
  EXPECT_EQ(value_of(*lines, "output"), "log/%j.out");
  EXPECT_EQ(value_of(*lines, "job-name"), "my job");
  EXPECT_EQ(value_of(*lines, "error"), "log/e r r");
}

TEST(SbatchLines, NameTheLineThatIsWrong) {
  EXPECT_THAT(parse_sbatch_lines("#!/bin/sh\n#SBATCH -o\n").error().detail, HasSubstr("line 2"));
}

TEST(SbatchLines, AreNoneInAScriptWithoutThem) {
  EXPECT_THAT(parse_sbatch_lines("").value().options, IsEmpty());
  EXPECT_THAT(parse_sbatch_lines("#!/bin/sh").value().options, IsEmpty());
}

}  // namespace
}  // namespace ddprun
