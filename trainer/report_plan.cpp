#include "trainer/report_plan.hpp"

#include "base/environment.hpp"
#include "base/parse.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

/// All variables of Slurm, and those that identify the ranks, as Mila's runs show them.
std::map<std::string, std::string> shown_environment() {
  std::map<std::string, std::string> shown;
  for (const auto& [name, value] : current_environment()) {
    const bool is_shown =
        name.starts_with("SLURM_") || name.starts_with("MASTER_") || name == "WORLD_SIZE";
    if (is_shown) shown.emplace(name, value);
  }
  return shown;
}

bool is_wandb_disabled() {
  const char* const mode = std::getenv("WANDB_MODE");
  return mode != nullptr && std::string_view(mode) == "disabled";
}

/// The value as Python would read it: a number, a truth value or a text.
ArgumentValue value_of(const std::string& text) {
  if (const auto whole = parse_int<std::int64_t>(text)) return *whole;
  if (const auto number = parse_double(text)) return *number;
  if (text == "true" || text == "false") return text == "true";
  return text;
}

/// A number, or its digits if it does not fit in an int64.
Arguments::value_type::second_type seed_argument(std::uint64_t seed) {
  if (std::in_range<std::int64_t>(seed)) return static_cast<std::int64_t>(seed);
  return std::to_string(seed);
}

Arguments arguments_of(const TrainOptions& options) {
  const DataOptions& data = options.data;
  Arguments arguments = {
      {"dataset", std::string(name_of(data.kind))},
      {"data_dir", data.directory},
      {"model", std::string(name_of(options.model.kind))},
      {"classes", options.model.classes},
      {"epochs", options.epochs},
      {"batch_size", options.batch_size},
      {"accumulate", options.accumulate},
      {"optimizer", std::string(name_of(options.optimizer.kind))},
      {"learning_rate", options.optimizer.learning_rate},
      {"momentum", options.optimizer.momentum},
      {"weight_decay", options.optimizer.weight_decay},
      {"schedule", std::string(name_of(options.schedule.kind))},
      {"amp", std::string(name_of(options.precision))},
      {"seed", seed_argument(options.seed)},
      {"sampler_seed", seed_argument(options.sampler_seed)}};
  // First the flags on which others depend, with their final values, then all given flags.
  for (const auto& [flag, text] : options.report.flags) {
    std::string name = flag;
    std::ranges::replace(name, '-', '_');
    const auto is_same = [&name](const auto& argument) { return argument.first == name; };
    if (std::ranges::none_of(arguments, is_same)) arguments.emplace_back(name, value_of(text));
  }
  return arguments;
}

/// The run's name in files: the given one, else the job's.
std::string run_name(const TrainOptions& options, const WorkerPlace& place) {
  return options.report.run_name.value_or(place.run_id);
}

Result<LineContext> line_context(const TrainOptions& options, const WorkerPlace& place) {
  const auto style = parse_line_style(
      options.report.style, name_of(options.data.kind), name_of(options.model.kind));
  if (!style) return with_context("--log-style", style.error());
  LineContext context;
  context.style = *style;
  context.verbosity = verbosity_of(options.report.verbosity);
  context.rank = place.rank;
  context.local_rank = place.local_rank;
  context.world = place.world;
  context.first_epoch = options.first_epoch;
  context.epochs = options.epochs;
  if (options.report.every_steps > 0) context.step_every = options.report.every_steps;
  return context;
}

}  // namespace

void name_event_files(TrainOptions& options) {
  ReportOptions& report = options.report;
  if (report.style != "kaust" || !report.tensorboard_dir) return;
  const std::string name = report.run_name.value_or(fmt::format(
      "ddp_{}_{:%Y%m%d-%H%M%S}", name_of(options.model.kind), fmt::localtime(std::time(nullptr))));
  report.tensorboard_dir = (std::filesystem::path(*report.tensorboard_dir) / name).string();
}

Result<RunReport> open_report(const TrainOptions& options, const WorkerPlace& place) {
  const ReportOptions& wanted = options.report;
  const auto lines = line_context(options, place);
  if (!lines) return lines.error();
  ReportFileOptions files;
  files.metrics_file = wanted.metrics_file;
  files.csv_file = wanted.csv_file;
  files.tensorboard_dir = wanted.tensorboard_dir;
  if (wanted.every_steps > 0) files.step_every = wanted.every_steps;
  if (lines->style == LineStyle::kKaust) files.scalar_names = ScalarNames::kKaust;
  if (wanted.wandb_dir && !is_wandb_disabled()) {
    files.wandb = ReportFileOptions::Wandb{
        .directory = *wanted.wandb_dir,
        .run_id = wanted.wandb_run_id.value_or(""),
        .project = wanted.wandb_project.value_or("ddptrain"),
        .group = wanted.wandb_group.value_or(""),
        .run_name = run_name(options, place),
        .environment = shown_environment()};
  }
  return RunReport::open(*lines, files);
}

RunBegan run_began(const TrainOptions& options, const WorkerPlace& place) {
  RunBegan began;
  began.world = place.world;
  began.attempt = place.attempt;
  began.dataset = name_of(options.data.kind);
  began.data_dir = options.data.directory;
  began.model = name_of(options.model.kind);
  began.seed = options.seed;
  began.batch_size = options.batch_size;
  began.threads = options.num_threads;
  began.arguments = arguments_of(options);
  began.tensorboard_dir = options.report.tensorboard_dir;
  return began;
}

}  // namespace ddprun
