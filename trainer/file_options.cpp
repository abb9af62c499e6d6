#include "trainer/file_options.hpp"

#include "trainer/core/bare_flags.hpp"
#include "trainer/core/checkpoint_plan.hpp"
#include "trainer/core/line_style.hpp"
#include "trainer/raw_options.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace ddprun {
namespace {

constexpr char kDefaultCheckpoints[] = "checkpoints";

/// The variable's value; none if it is unset or empty.
std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

/// The style of the system whose lines the run prints; ours if that system has no files.
CheckpointStyle checkpoint_style_beside(const RawOptions& raw) {
  const auto lines = parse_line_style(raw.options.report.style, raw.dataset, raw.model);
  switch (lines ? *lines : LineStyle::kPlain) {
    case LineStyle::kMilaImagenet:
      return CheckpointStyle::kMila;
    case LineStyle::kMilaCifar:
      return CheckpointStyle::kMilaCifar;
    case LineStyle::kCrusoeMnist:
    case LineStyle::kCrusoeVit:
      return CheckpointStyle::kCrusoe;
    case LineStyle::kOpenacc:
      return CheckpointStyle::kOpenAcc;
    case LineStyle::kPlain:
    case LineStyle::kKaust:
      return CheckpointStyle::kDdprun;
  }
  return CheckpointStyle::kDdprun;
}

/// A variable that a script sets for the directory of checkpoints makes the flag unnecessary. It is
/// ignored by a run that saves nothing.
std::optional<std::string> checkpoint_directory(const RawOptions& raw) {
  const TrainOptions& options = raw.options;
  const bool keeps_nothing = options.burn_in_hours || options.evaluated;
  if (raw.checkpoint_directory || keeps_nothing) return raw.checkpoint_directory;
  return variable("CHECKPOINT_DIR");
}

/// The files for other programs, if requested.
Result<void> read_checkpoints(TrainOptions& options, const RawOptions& raw) {
  const bool has_model_file = raw.model_directory || raw.model_file;
  const auto directory = has_model_file ? raw.model_directory : checkpoint_directory(raw);
  if (!raw.checkpoint_style && !directory && !raw.checkpoint_every_epochs && !has_model_file) {
    return {};
  }
  CheckpointOptions& checkpoints = options.checkpoints;
  const auto given = checkpoint_style_of(raw.checkpoint_style.value_or(""));
  constexpr auto kOfModelFile = CheckpointStyle::kOpenAccWeights;
  if (has_model_file && given.value_or(kOfModelFile) != kOfModelFile) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} is for the files of --checkpoint-style {}, not of {}; leave one of them out",
            raw.model_directory ? "--model-dir" : "--model-filename",
            name_of(kOfModelFile),
            raw.checkpoint_style.value_or("")));
  }
  const CheckpointStyle style =
      has_model_file ? kOfModelFile : given.value_or(checkpoint_style_beside(raw));
  checkpoints.style = style;
  checkpoints.file_name = raw.model_file;
  checkpoints.every_epochs = raw.checkpoint_every_epochs.value_or(checkpoint_interval(style));
  checkpoints.directory =
      directory.value_or(options.snapshots.directory.value_or(kDefaultCheckpoints));
  return {};
}

/// The source of --resume without a path: the run's own snapshots, from which it resumes anyway, or
/// the weights that it saved by --model-dir.
Result<void> read_resume(TrainOptions& options, const RawOptions& raw) {
  if (raw.resumed != kResumeAlone) {
    options.snapshots.begun_with = raw.resumed;
    return {};
  }
  if (!raw.model_directory && !raw.model_file) {
    if (options.snapshots.directory) return {};
    return make_error(
        Errc::kInvalidArgument,
        "--resume without a path needs --snapshot-dir or --model-dir; give one of them, or a path "
        "after --resume");
  }
  const std::string name =
      raw.model_file.value_or(checkpoint_file_name(CheckpointStyle::kOpenAccWeights, 0, 0));
  const std::filesystem::path file = std::filesystem::path(options.checkpoints.directory) / name;
  std::error_code ignored;  // an inaccessible file counts as missing
  if (std::filesystem::exists(file, ignored)) {
    options.pretrained = file.string();
    return {};
  }
  if (options.snapshots.directory) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "--resume: '{}' does not exist; leave --resume out to start over", file.string()));
}

/// --pretrained without a file: the file that Python's torchvision downloads for such a model.
Result<void> read_pretrained(TrainOptions& options) {
  if (options.pretrained != kPretrainedAlone) return {};
  const char* const name = torchvision_weights_file(options.model.kind);
  if (name == nullptr) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--pretrained without a file is only for models of torchvision, not for {}; give a "
            "file",
            name_of(options.model.kind)));
  }
  // As in torch.hub.get_dir().
  const auto home = variable("TORCH_HOME");
  const std::filesystem::path cache =
      variable("XDG_CACHE_HOME").value_or(variable("HOME").value_or(".") + "/.cache");
  const std::filesystem::path file =
      (home ? std::filesystem::path(*home) : cache / "torch") / "hub" / "checkpoints" / name;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--pretrained without a file needs the one that torchvision downloads, but '{}' does "
            "not "
            "exist; download https://download.pytorch.org/models/{} to it, or give a file",
            file.string(),
            name));
  }
  options.pretrained = file.string();
  return {};
}

/// Sets the metric of the best snapshot, and checks that it is measured.
Result<void> read_best(TrainOptions& options, const RawOptions& raw) {
  const auto refuse = [](const std::string& text) {
    return make_error(Errc::kInvalidArgument, text);
  };
  auto& best = options.snapshots.keeps_best;
  if (raw.best) best = best_metric_of(*raw.best);
  if (best && !options.snapshots.directory) {
    return refuse("--keep-best needs --snapshot-dir, where the best snapshot is kept");
  }
  const auto& style = options.checkpoints.style;
  if (style && !best_file_name(*style).empty()) {
    if (best == BestMetric::kLoss) {
      return refuse(fmt::format(
          "--checkpoint-style {} has the best accuracy in its files; it cannot be combined with "
          "--keep-best loss",
          name_of(*style)));
    }
    best = BestMetric::kAccuracy;
  }
  if (!best) return {};
  options.evaluate_every_epochs = raw.evaluate_every_epochs.value_or(1);
  if (options.evaluate_every_epochs > 0) return {};
  return refuse(
      "--keep-best needs measurements, but --evaluate-every-epochs is 0; leave it out, or give 1 "
      "or more");
}

Result<void> check_link(const TrainOptions& options) {
  const bool leads_somewhere = options.checkpoints.style || options.snapshots.directory;
  if (!options.links_checkpoints || leads_somewhere) return {};
  return make_error(
      Errc::kInvalidArgument, "--link-checkpoints needs --snapshot-dir or --checkpoint-dir");
}

}  // namespace

Result<void> read_files(TrainOptions& options, const RawOptions& raw) {
  auto done = read_checkpoints(options, raw);
  if (done) done = read_pretrained(options);
  if (done) done = read_resume(options, raw);
  if (done) done = read_best(options, raw);
  if (done) done = check_link(options);
  return done;
}

}  // namespace ddprun
