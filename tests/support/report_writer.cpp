// report_writer DIRECTORY STEPS: writes every file of a synthetic run into DIRECTORY, for other
// programs to read: run.jsonl, run.csv, mila/, kaust/ (TensorBoard's) and wandb/.

#include "base/parse.hpp"
#include "trainer/report_files.hpp"

#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr double kBegin = 1'700'000'000;

/// Losses are multiples of 1/8, which a float represents exactly.
StepDone step_of(std::int64_t number, std::int64_t steps) {
  StepDone step;
  step.at = {.epoch = 0, .step = number};
  step.batch = number;
  step.batches = steps;
  step.sums = {.loss = static_cast<double>(number) / 8, .correct = 1, .samples = 1};
  step.samples_of_run = number;
  step.learning_rate = 0.5;
  step.rates.samples_per_s = 8;
  return step;
}

std::vector<ReportEvent> run_of(std::int64_t steps) {
  RunBegan began;
  began.world = 2;
  began.model = "resnet18";
  began.batch_size = 4;
  // Longer than a block of wandb's log.
  began.arguments = {{"lr", 0.5}, {"amp", false}, {"note", std::string(70'000, 'n')}};
  std::vector<ReportEvent> events{began, EpochBegan{}};
  for (std::int64_t number = 1; number <= steps; ++number) {
    events.emplace_back(step_of(number, steps));
  }
  EpochValidated validated;
  validated.trained.at = {.epoch = 0, .step = steps};
  validated.trained.sums = {.loss = 20, .correct = 5, .samples = 10};
  validated.trained.learning_rate = 0.5;
  validated.sums = {.loss = 3, .correct = 1, .samples = 4};
  validated.seconds = 2;
  validated.epoch_seconds = 5;
  events.emplace_back(validated.trained);
  events.emplace_back(validated);
  events.emplace_back(SnapshotSaved{.at = validated.trained.at, .path = "a,\"b\""});
  RunEnded ended;
  ended.at = validated.trained.at;
  ended.sums = validated.sums;
  ended.weights_sha256 = "ab12";
  ended.seconds = 12.5;
  events.emplace_back(ended);
  return events;
}

Result<void> write_run(const ReportFileOptions& options, const std::vector<ReportEvent>& events) {
  auto files = ReportFiles::open(options, kBegin);
  if (!files) return files.error();
  double time_s = kBegin;
  for (const ReportEvent& event : events) {
    const auto written = files->write(event, time_s += 1);
    if (!written) return written.error();
  }
  return {};
}

int write_all(const std::string& directory, std::int64_t steps) {
  ReportFileOptions options;
  options.metrics_file = directory + "/run.jsonl";
  options.csv_file = directory + "/run.csv";
  options.tensorboard_dir = directory + "/mila";
  options.step_every = 1;
  options.wandb = {
      .directory = directory,
      .run_id = "abcd1234",
      .project = "kit",
      .group = "g",
      .run_name = "seven_step2",
      .environment = {{"SLURM_JOB_ID", "7"}}};
  const std::vector<ReportEvent> events = run_of(steps);
  auto written = write_run(options, events);
  options = {};
  options.tensorboard_dir = directory + "/kaust";
  options.scalar_names = ScalarNames::kKaust;
  if (written) written = write_run(options, events);
  if (written) return 0;
  static_cast<void>(std::fprintf(stderr, "%s\n", written.error().detail.c_str()));
  return 1;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() != 3) return 2;
  const auto steps = ddprun::parse_int<std::int64_t>(arguments[2]);
  if (!steps) return 2;
  return ddprun::write_all(arguments[1], *steps);
}
