#include "base/flag_checks.hpp"
#include "launcher/ctl/reports/reports.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>

namespace ddprun {
namespace {

constexpr int kEpochsMax = 1'000'000'000;

/// Refuses a text that is not a plain file name and could lead to another directory.
CLI::Validator file_name() {
  return {
      [](const std::string& text) -> std::string {
        const bool leads_away = text == "." || text == ".." || text.find('/') != std::string::npos;
        if (!text.empty() && !leads_away) return {};
        return fmt::format("'{}' is not a job id", text);
      },
      ""};
}

}  // namespace

void add_memory(CLI::App& app, MemoryOptions& options) {
  CLI::App* const memory = app.add_subcommand(
      "analyze-memory", "Show the memory use of a job, from the logs of samplers");
  memory->add_option("job", options.job, "Job id, the name of the job's log directories")
      ->required()
      ->check(file_name());
  memory->add_option("--path", options.path, "Directory of gpu_memory/ and cpu_memory/")
      ->check(not_empty())
      ->capture_default_str();
  auto* const gpu = memory->add_flag("--gpu-only", options.gpu_only, "Leave out the processes");
  memory->add_flag("--cpu-only", options.cpu_only, "Leave out the GPUs")->excludes(gpu);
  memory->add_flag(
      "--skip-warmup", options.skip_warmup, "Leave out the samples before half of the peak");
  memory->add_flag("--strict", options.strict, "Fail if a log is missing or invalid");
}

void add_scaling(CLI::App& app, ScalingOptions& options) {
  CLI::App* const scaling =
      app.add_subcommand("scaling-report", "Compare a training on different numbers of GPUs");
  scaling->add_option("logs", options.logs, "Output files of jobs, such as log/ddp_2G4N-117.out")
      ->required()
      ->check(not_empty());
  scaling->add_option("--path", options.path, "Directory of gpu_memory/")
      ->check(not_empty())
      ->capture_default_str();
  scaling->add_option("--epoch", options.epoch, "Epoch to compare, counted from 1")
      ->transform(count(1, kEpochsMax))
      ->capture_default_str();
  scaling->add_flag("--strict", options.strict, "Fail if a log is missing or invalid");
}

}  // namespace ddprun
