#include "launcher/ctl/reports/options.hpp"

#include "base/flag_checks.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>

namespace ddprun {
namespace {

constexpr int kEpochsMax = 1'000'000'000;

/// Refuses what is no name of a directory's entry, and would lead elsewhere.
CLI::Validator file_name() {
  return {
      [](const std::string& text) -> std::string {
        const bool leads_away = text == "." || text == ".." || text.find('/') != std::string::npos;
        if (!text.empty() && !leads_away) return {};
        return fmt::format("'{}' is no id of a job", text);
      },
      ""};
}

}  // namespace

void add_memory(CLI::App& app, MemoryOptions& options) {
  CLI::App* const memory =
      app.add_subcommand("analyze-memory", "Tell what memory a job took, by the logs of samplers");
  memory->add_option("job", options.job, "Its id, the name of its log directories")
      ->required()
      ->check(file_name());
  memory->add_option("--path", options.path, "Where gpu_memory/ and cpu_memory/ are")
      ->check(not_empty())
      ->capture_default_str();
  auto* const gpu = memory->add_flag("--gpu-only", options.gpu_only, "Leave out the processes");
  memory->add_flag("--cpu-only", options.cpu_only, "Leave out the GPUs")->excludes(gpu);
  memory->add_flag(
      "--skip-warmup", options.skip_warmup, "Leave out what is before half of the peak");
  memory->add_flag("--strict", options.strict, "Fail if a log is missing or wrong");
}

void add_scaling(CLI::App& app, ScalingOptions& options) {
  CLI::App* const scaling =
      app.add_subcommand("scaling-report", "Tables of one training on more and more GPUs");
  scaling->add_option("logs", options.logs, "Outputs of jobs, such as log/ddp_2G4N-117.out")
      ->required()
      ->check(not_empty());
  scaling->add_option("--path", options.path, "Where gpu_memory/ is")
      ->check(not_empty())
      ->capture_default_str();
  scaling->add_option("--epoch", options.epoch, "Which one to compare, from 1")
      ->transform(count(1, kEpochsMax))
      ->capture_default_str();
  scaling->add_flag("--strict", options.strict, "Fail if a log is missing or wrong");
}

}  // namespace ddprun
