// Which row of a grid a run takes, how a row is split into arguments, and what --independent
// allows.

#include "launcher/flags/core/tasks.hpp"

#include "launcher/flags/core/arguments.hpp"
#include "tests/launcher/flags/command_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words_of(std::string_view line) {
  auto arguments = split_arguments(line);
  return arguments ? *arguments : std::vector<std::string>{arguments.error().detail};
}

TEST(Arguments, AreSplitAsAShellDoesIt) {
  EXPECT_THAT(words_of("  a\tb  c "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(words_of("a' b 'c"), ElementsAre("a b c"));
  EXPECT_THAT(words_of(R"("a \"b\" \$c \d" e\ f)"), ElementsAre(R"(a "b" $c \d)", "e f"));
  EXPECT_THAT(words_of(R"('a\')"), ElementsAre(R"(a\)"));
  EXPECT_THAT(words_of("'' \"\""), ElementsAre("", ""));
  EXPECT_THAT(words_of("$a *;#|>"), ElementsAre("$a", "*;#|>"));
  EXPECT_THAT(words_of("  "), IsEmpty());
}

TEST(Arguments, NeedAnEndOfEachQuote) {
  EXPECT_THAT(words_of("a 'b"), ElementsAre("a quote (') is not closed"));
  EXPECT_THAT(words_of("a \"b\\\""), ElementsAre("a quote (\") is not closed"));
  EXPECT_THAT(words_of("a \\"), ElementsAre("nothing follows the last backslash"));
}

/// The row, or the error message if there is none.
std::string row_of(std::optional<std::uint32_t> element, int beside = 1, int index = 0) {
  const auto row = TaskPlace{.element = element, .beside = beside, .index = index}.row();
  return row ? std::to_string(*row) : row.error().detail;
}

TEST(Row, IsThatOfTheArraysTask) {
  EXPECT_EQ(row_of(1), "1");
  EXPECT_EQ(row_of(3), "3");
  EXPECT_THAT(row_of(0), HasSubstr("rows are counted from 1"));
  EXPECT_THAT(row_of(std::nullopt), HasSubstr("SLURM_ARRAY_TASK_ID is not set"));
}

TEST(Row, IsAnotherOneForEachOfSeveralSideBySide) {
  EXPECT_EQ(row_of(std::nullopt, 3, 0), "1");
  EXPECT_EQ(row_of(std::nullopt, 3, 2), "3");
  EXPECT_EQ(row_of(1, 3, 2), "3");
  EXPECT_EQ(row_of(2, 3, 0), "4");
}

TEST(Task, HasAnIdOfItsOwnInTheWholeArray) {
  EXPECT_EQ((TaskPlace{.element = std::nullopt, .beside = 3, .index = 2}.id()), 2);
  EXPECT_EQ((TaskPlace{.element = 0, .beside = 3, .index = 2}.id()), 2);
  EXPECT_EQ((TaskPlace{.element = 1, .beside = 3, .index = 0}.id()), 3);
}

TEST(Task, IsToldByANumber) {
  EXPECT_EQ(*array_element({}), std::nullopt);
  EXPECT_EQ(*array_element({{"SLURM_ARRAY_TASK_ID", "3"}}), 3U);
  const auto wrong = array_element({{"SLURM_ARRAY_TASK_ID", "x"}});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().detail, HasSubstr("SLURM_ARRAY_TASK_ID 'x'"));
}

TEST(Grid, CountsNeitherCommentsNorEmptyLines) {
  constexpr std::string_view kGrid = "# lr\n--lr 0.1\n\n  --lr 0.2 --name 'a b'\r\n--lr 0.3";
  EXPECT_THAT(*arguments_of_row(kGrid, 1), ElementsAre("--lr", "0.1"));
  EXPECT_THAT(*arguments_of_row(kGrid, 2), ElementsAre("--lr", "0.2", "--name", "a b"));
  EXPECT_THAT(*arguments_of_row(kGrid, 3), ElementsAre("--lr", "0.3"));
}

TEST(Grid, MayBeginWithAByteOrderMark) {
  const auto arguments = arguments_of_row("\xEF\xBB\xBF--lr 0.1\n", 1);
  ASSERT_TRUE(arguments);
  EXPECT_THAT(*arguments, ElementsAre("--lr", "0.1"));
}

TEST(Grid, IsWrongWhereARowIsMissingOrMakesNoSense) {
  const auto missing = arguments_of_row("--lr 1\n", 2);
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().is(Errc::kCorrupt));
  EXPECT_EQ(missing.error().detail, "row 2 does not exist; the file has 1 rows");
  const auto open = arguments_of_row("a\n'b\n", 2);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().detail, "row 2: a quote (') is not closed");
}

std::string independent(const Arguments& arguments, const std::optional<Allocation>& step = {}) {
  auto line = read_command_line(arguments, {});
  if (!line) return line.error().detail;
  const auto filled = fill_for_independent(step, *line);
  if (!filled) return filled.error().detail;
  return line->given.at("nnodes").text + " node, " + line->given.at("nproc-per-node").text;
}

TEST(Independent, MeansOneNodeAndOneWorkerEach) {
  EXPECT_EQ(independent({"--independent", "3", "x"}), "1 node, 1");
  EXPECT_EQ(
      independent({"--independent", "3", "--nproc-per-node", "1", "--nnodes=1:1", "x"}),
      "1:1 node, 1");
  EXPECT_EQ(
      independent({"--independent", "3", "--nproc-per-node", "2", "x"}),
      "--nproc-per-node '2' with --independent: each job has one worker; leave one of them out");
  for (const char* flag :
       {"--nnodes=2", "--rdzv-endpoint=a:1", "--master-port=29500", "--requeue=always"}) {
    EXPECT_THAT(independent({"--independent", "3", flag, "x"}), HasSubstr("leave one of them out"));
  }
}

TEST(Independent, WantsAStepOfOneTask) {
  Allocation step;
  step.nodes = {"n0", "n1"};
  step.tasks_per_node = {1, 1};
  EXPECT_THAT(independent({"--independent", "3", "x"}, step), HasSubstr("has 2 tasks"));
}

TEST(Independent, SharesOutTheDevices) {
  const auto share = [](int count, int gpus, const Environment& environment) {
    const auto devices = share_devices(count, gpus, environment);
    std::vector<std::string> told;
    if (!devices) return std::vector<std::string>{devices.error().detail};
    for (const auto& device : *devices)
      told.push_back(device.value_or("-"));
    return told;
  };
  EXPECT_THAT(share(2, 0, {}), ElementsAre("-", "-"));
  EXPECT_THAT(share(2, 4, {}), ElementsAre("0", "1"));
  EXPECT_THAT(share(2, 4, {{"CUDA_VISIBLE_DEVICES", ""}}), ElementsAre("-", "-"));
  EXPECT_THAT(share(2, 4, {{"CUDA_VISIBLE_DEVICES", "7, 7,1"}}), ElementsAre("7", "7"));
  EXPECT_THAT(share(3, 2, {}), ElementsAre(HasSubstr("only 2 are visible")));
}

TEST(Wrap, IsRefusedWhereItMakesNoSense) {
  EXPECT_THAT(
      options_of({"--wrap", "env 'A B=%r' %%", "x"}).plan.command.wrap,
      ElementsAre("env", "A B=%r", "%%"));
  EXPECT_THAT(complaint({"--wrap", "env M=%q"}), HasSubstr("unknown placeholder '%q'"));
  EXPECT_THAT(complaint({"--wrap", "env 'M"}), HasSubstr("a quote (') is not closed"));
  EXPECT_THAT(complaint({"--wrap", " "}), HasSubstr("expected a program"));
  EXPECT_THAT(complaint({"--wrap", "run_%r"}), HasSubstr("the same for all ranks"));
}

TEST(DebugRank, IsARank) {
  EXPECT_EQ(options_of({"--debug-rank", "1", "x"}).plan.debug_rank, 1);
  EXPECT_THAT(complaint({"--debug-rank", "-1"}), HasSubstr("expected a rank"));
  EXPECT_THAT(complaint({"--independent", "0"}), HasSubstr("expected a number from 1"));
}

}  // namespace
}  // namespace ddprun
