#include "trainer/core/options.hpp"

#include "base/parse.hpp"
#include "trainer/core/snapshot.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

namespace ddprun {

namespace {

constexpr const char* kTrainSamples = "training samples";
// Arguments that older snapshots do not have.
constexpr std::array kLater = {
    kTrainSamples,
    "--drop-last",
    "--dropout",
    "--python-transforms",
    "--sync-bn",
    "--validation-seed",
    "--validation-split"};

const char* switched(bool is_on) {
  return is_on ? "on" : "off";
}

}  // namespace

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "off";
    case Precision::kBFloat16:
      return "bf16";
    case Precision::kFloat16:
      return "fp16";
  }
  return "";
}

const char* name_of(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kFp16:
      return "fp16";
    case Compression::kBf16:
      return "bf16";
  }
  return "";
}

Result<void> check_flags_of_gpus(const TrainOptions& options) {
  if (options.device != DeviceKind::kCpu) return {};
  const NumericOptions& numerics = options.numerics;
  const char* const of_gpus = numerics.uses_tf32               ? "--tf32"
                              : numerics.benchmarks_cudnn      ? "--cudnn-benchmark"
                              : options.profile.captured_epoch ? "--profile-epoch"
                                                               : nullptr;
  if (of_gpus == nullptr) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "{} is for GPUs, but this run is on the CPU; leave it out, or see --device", of_gpus));
}

std::map<std::string, std::string> arguments_of_job(const TrainOptions& options) {
  const auto or_all = [](const std::optional<std::int64_t>& limit) {
    return limit ? std::to_string(*limit) : std::string("all");
  };
  const DataOptions& data = options.data;
  std::map<std::string, std::string> arguments = {
      {"--amp", name_of(options.precision)},
      {"--classes", std::to_string(options.model.classes)},
      {"--dataset", name_of(data.kind)},
      {"--drop-last", switched(data.drops_tail)},
      {"--dropout",
       options.model.dropout ? fmt::format("{}", *options.model.dropout) : "the model's"},
      {"--first-epoch", std::to_string(options.first_epoch)},
      {"--image-size", std::to_string(options.model.image.side)},
      {"--limit-train-samples", or_all(data.limit_train)},
      {"--model", name_of(options.model.kind)},
      {"--optimizer", name_of(options.optimizer.kind)},
      {"--sampler-seed", std::to_string(options.sampler_seed)},
      {"--python-transforms", switched(data.draws_as_python)},
      {"--seed", std::to_string(options.seed)},
      {"--sync-bn", switched(options.synchronises_batch_norm)},
      {"--transforms", data.transforms.value_or("")},
      {"--validation-share", fmt::format("{}", data.validation_share)}};
  if (data.validation_share > 0) {  // otherwise they do not affect training
    arguments.emplace("--validation-seed", std::to_string(data.validation_seed));
    arguments.emplace("--validation-split", data.is_stratified ? "stratified" : "random");
  }
  if (options.train_samples)
    arguments.emplace(kTrainSamples, std::to_string(*options.train_samples));
  // A CPU snapshot lacks the state of the device's generator.
  if (options.device == DeviceKind::kCuda) arguments.emplace("--device", name_of(options.device));
  return arguments;
}

std::map<std::string, std::string> settings_of_job(const TrainOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  const ScheduleOptions& schedule = options.schedule;
  const auto text = [](double number) { return fmt::format("{}", number); };
  std::map<std::string, std::string> settings = {
      {"--accumulate", std::to_string(options.accumulate)},
      {"--batch-size", std::to_string(options.batch_size)},
      {"--clip-norm", options.clip_norm ? text(*options.clip_norm) : "none"},
      {"--compress", name_of(options.ddp.compression)},
      {"--epochs", std::to_string(options.epochs)},
      {"--learning-rate", text(optimizer.learning_rate)},
      {"--momentum", text(optimizer.momentum)},
      {"--nesterov", switched(optimizer.is_nesterov)},
      {"--schedule", name_of(schedule.kind)},
      {"--weight-decay", text(optimizer.weight_decay)}};
  if (schedule.kind == ScheduleKind::kStep) {
    settings.emplace("--gamma", text(schedule.gamma));
    settings.emplace("--step-size", std::to_string(schedule.step_epochs));
  } else if (schedule.kind != ScheduleKind::kConstant) {
    settings.emplace("--warmup-epochs", std::to_string(schedule.warmup_epochs));
  }
  return settings;
}

std::string changed_settings(
    const std::map<std::string, std::string>& saved, const TrainOptions& options) {
  std::vector<std::string> changed;
  for (const auto& [flag, value] : settings_of_job(options)) {
    const auto found = saved.find(flag);
    if (found == saved.end() || found->second == value) continue;
    changed.push_back(fmt::format("{} {} (was {})", flag, value, found->second));
  }
  return fmt::format("{}", fmt::join(changed, ", "));
}

std::string flags_of_job(const TrainOptions& options) {
  auto flags = arguments_of_job(options);
  flags.merge(settings_of_job(options));
  std::string text;
  for (const auto& [flag, value] : flags) {
    text += fmt::format("{} {}\n", flag, value);
  }
  return text;
}

Result<void> check_flags_of_rank_0(const std::string& theirs, const TrainOptions& options) {
  const std::string text = flags_of_job(options);
  const auto mine = split(text, '\n');
  const auto of_rank_0 = split(theirs, '\n');
  for (std::size_t i = 0; i < std::min(mine.size(), of_rank_0.size()); ++i) {
    if (mine[i] == of_rank_0[i]) continue;
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "this rank has {}, but rank 0 has {}; give all ranks the same flags",
            mine[i],
            of_rank_0[i]));
  }
  return {};
}

Result<void> check_same_job(
    const std::map<std::string, std::string>& saved, const TrainOptions& options) {
  const bool is_imported = saved.contains(kImportedFrom);  // then missing flags are free
  const auto differs = [&saved, is_imported](const auto& argument) {
    const auto found = saved.find(argument.first);
    if (found != saved.end()) return found->second != argument.second;
    return !is_imported && std::ranges::find(kLater, argument.first) == kLater.end();
  };
  const auto refuse = [&saved](const std::string& flag, const std::string& value) {
    const auto found = saved.find(flag);
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "saved with {} {}, but this run has {}; give the same flags, or another "
            "--snapshot-dir to start over",
            flag,
            found == saved.end() ? "unknown" : found->second,
            value));
  };
  // First the flags on which others depend: if --dataset differs, --image-size may differ, too.
  const auto ours = arguments_of_job(options);
  for (const char* const leading : {"--dataset", "--model", "--seed"}) {
    const auto& argument = *ours.find(leading);
    if (differs(argument)) return refuse(argument.first, argument.second);
  }
  for (const auto& argument : ours) {
    if (differs(argument)) return refuse(argument.first, argument.second);
  }
  return {};
}

}  // namespace ddprun
