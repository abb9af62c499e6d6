#include "launcher/ctl/reports/core/scaling.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

std::string epoch_line(int epoch, double throughput) {
  return fmt::format(
      "Epoch [{}/3] LR: 0.100000 | Loss (train, val): 5.149, 5.664 | Accuracy (train, val): "
      "2.16%, 0.98% | Throughput: {:.1f} img/s\n",
      epoch,
      throughput);
}

ScalingJob job_named(const std::string& name) {
  return parse_log_name(name).value();
}

std::string refusal_of(const std::string& log, int epoch, const ScalingJob& job) {
  const auto found = find_epoch(log, epoch, job);
  return found ? "accepted" : found.error().detail;
}

ScalingRun run_of(const std::string& name, double throughput, std::optional<double> peak = {}) {
  ScalingRun run{.job = job_named(name), .epoch = {}, .memory = std::nullopt};
  run.epoch.images_per_s = throughput;
  if (peak) run.memory = MemoryUse{.peak = *peak, .average = *peak / 2, .modes = {*peak}};
  return run;
}

/// The first, second, seventh and eighth cells and the last one of each row: nodes, GPUs, img/s and
/// the factors; without the rows of the heading.
std::vector<std::string> short_rows(const std::string& tables) {
  std::vector<std::string> rows;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = tables.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = tables.substr(begin, end - begin);
    std::vector<std::string> cells;
    for (std::size_t at = 0, bar = 0; (bar = line.find(" |", at)) != std::string::npos;
         at = bar + 2) {
      cells.push_back(line.substr(at, bar - at));
    }
    if (cells.size() != 12 || cells[0].find_first_of("0123456789") == std::string::npos) continue;
    cells[0].erase(0, 1);
    rows.push_back(cells[0] + cells[1] + cells[6] + cells[7] + cells[11]);
  }
  return rows;
}

TEST(LogName, SaysGpusNodesAndJob) {
  EXPECT_EQ(
      job_named("ddp_2G4N-117.out"), (ScalingJob{.gpus_per_node = 2, .nodes = 4, .id = "117"}));
  EXPECT_EQ(job_named("ddp_G1N1-9.out"), (ScalingJob{.gpus_per_node = 1, .nodes = 1, .id = "9"}));
}

TEST(LogName, RefusesAnythingElse) {
  for (const char* name :
       {"",
        "slurm-117.out",
        "ddp_2G4N.out",
        "ddp_2G4N-.out",
        "ddp_2G4N-x.out",
        "ddp_0G1N-1.out",
        "ddp_2G-1N-1.out",
        "ddp_99999999999G1N-1.out"}) {
    EXPECT_FALSE(parse_log_name(name)) << name;
  }
  EXPECT_THAT(parse_log_name("a.out").error().detail, HasSubstr("'a.out' is not a name such as"));
}

TEST(FindEpoch, ReadsTheLineOfThatEpochWhateverStandsBefore) {
  const ScalingJob job = job_named("ddp_G1N1-9.out");
  const EpochResult expected{
      .train_loss = 5.149,
      .val_loss = 5.664,
      .train_accuracy = 2.16,
      .val_accuracy = 0.98,
      .images_per_s = 704.9};
  EXPECT_EQ(find_epoch(epoch_line(1, 1) + epoch_line(3, 704.9), 3, job).value(), expected);
  EXPECT_EQ(find_epoch("[trainer0]:" + epoch_line(3, 704.9), 3, job).value(), expected);
}

TEST(FindEpoch, TakesTheLastOneOfARequeuedJob) {
  const std::string log = epoch_line(3, 1) + epoch_line(1, 2) + epoch_line(3, 704.9);
  EXPECT_EQ(find_epoch(log, 3, job_named("ddp_G1N1-9.out")).value().images_per_s, 704.9);
}

TEST(FindEpoch, RefusesALogWithoutIt) {
  const ScalingJob job = job_named("ddp_G1N1-9.out");
  EXPECT_EQ(refusal_of(epoch_line(2, 1), 3, job), "it has no line for epoch 3");
  EXPECT_EQ(refusal_of("Epoch [3/3] LR: x\n", 3, job), "it has no line for epoch 3");
}

TEST(FindEpoch, RefusesAWorldOfAnotherSizeThanTheNameSays) {
  const std::string log = "[Rank 0] World size: 4\n" + epoch_line(3, 1);
  EXPECT_EQ(
      refusal_of(log, 3, job_named("ddp_2G1N-9.out")),
      "its world size is 4, but its name says 2 GPUs");
  EXPECT_EQ(refusal_of(log, 3, job_named("ddp_2G2N-9.out")), "accepted");
}

TEST(ScalingTables, AreOneOfGpusAndOneOfNodes) {
  const std::string tables = scaling_tables(
      {run_of("ddp_2G4N-5.out", 2000, 110),
       run_of("ddp_8G1N-4.out", 1600),
       run_of("ddp_G1N1-1.out", 250, 100),
       run_of("ddp_2G2N-3.out", 1000, 100),
       run_of("ddp_2G1N-2.out", 500, 105)},
      3);
  EXPECT_THAT(
      short_rows(tables),
      ::testing::ElementsAre(
          " 1 1 250.0 1.00 1.00",
          " 1 2 500.0 2.00 1.05",
          " 1 8 1600.0 6.40 -",
          " 1 2 500.0 1.00 1.00",
          " 2 4 1000.0 2.00 0.95",
          " 4 8 2000.0 4.00 1.05"))
      << tables;
  EXPECT_THAT(
      tables, HasSubstr("\nScaling over the GPUs of one node, epoch 3\n\n| Nodes | GPUs |"));
  EXPECT_THAT(tables, HasSubstr("\nScaling over nodes, epoch 3\n\n| Nodes | GPUs |"));
}

TEST(ScalingTables, LeaveOutTheOneWithoutRuns) {
  EXPECT_EQ(scaling_tables({}, 3), "");
  const std::string only_nodes = scaling_tables({run_of("ddp_2G4N-5.out", 2000)}, 3);
  EXPECT_THAT(only_nodes, ::testing::Not(HasSubstr("of one node")));
  EXPECT_THAT(short_rows(only_nodes), ::testing::ElementsAre(" 4 8 2000.0 1.00 -"));
}

TEST(ScalingTables, TellNoFactorToNothing) {
  const std::string tables =
      scaling_tables({run_of("ddp_G1N1-1.out", 0, 0), run_of("ddp_2G1N-2.out", 500, 105)}, 3);
  EXPECT_THAT(short_rows(tables), ::testing::Contains(" 1 2 500.0 - -"));
}

}  // namespace
}  // namespace ddprun
