#include "trainer/options.hpp"

#include "base/nearest.hpp"
#include "trainer/config_file.hpp"
#include "trainer/file_options.hpp"
#include "trainer/raw_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kDebianFashionMnist[] = "/usr/share/datasets/fashion-mnist";

using Parsed = std::variant<RawOptions, PrintAndLeave>;

/// CLI11's error as one line with a remedy.
Error refused(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  if (const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error); extras != nullptr) {
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) {
      known.push_back(option->get_name());
    }
    const std::vector<std::string> unknown = app.remaining();
    const auto meant = nearest(unknown.empty() ? "" : unknown.front(), known);
    text = fmt::format("unknown argument '{}'", unknown.empty() ? text : unknown.front());
    if (meant) text += fmt::format("; did you mean {}?", *meant);
  }
  return make_error(Errc::kInvalidArgument, text + "; see ddptrain --help");
}

/// Every flag that was given or has a default. Hidden flags are left out, and so is --config, whose
/// flags are included themselves.
std::vector<std::pair<std::string, std::string>> flags_of(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const CLI::Option* option : app.get_options()) {
    const bool is_flag = !option->get_lnames().empty() && !option->get_group().empty();
    if (!is_flag || option->get_lnames().front() == "config") continue;
    std::string value = option->get_default_str();
    const bool has_no_value = option->get_items_expected_max() == 0;  // it may count, as -vv does
    if (option->count() > 1 && has_no_value) {
      value = std::to_string(option->count());
    } else if (option->count() > 0) {
      value = fmt::format("{}", fmt::join(option->reduced_results(), ","));
    }
    if (!value.empty()) flags.emplace_back(option->get_lnames().front(), value);
  }
  return flags;
}

Result<Parsed> parse(std::vector<std::string> arguments) {
  RawOptions raw;
  CLI::App app(
      "Train an image classifier with DDP. Start it alone, with ddprun, or with srun.", "ddptrain");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "ddptrain " DDPRUN_VERSION);
  add_flags(app, raw);
  try {
    std::ranges::reverse(arguments);  // CLI11 expects reverse order
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return {PrintAndLeave{.text = app.help()}};
  } catch (const CLI::CallForVersion&) {
    return {PrintAndLeave{.text = app.version() + "\n"}};
  } catch (const CLI::ParseError& error) {
    return refused(app, error);
  }
  raw.options.report.flags = flags_of(app);
  return {std::move(raw)};
}

/// The arguments with each `name=value` as a flag after all others.
Result<std::vector<std::string>> with_overrides(
    std::vector<std::string> arguments, const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const auto at = std::ranges::find(arguments, text);
    if (at != arguments.end()) arguments.erase(at);
    if (text.find('=') == std::string::npos) {
      return make_error(
          Errc::kInvalidArgument,
          fmt::format(
              "unknown argument '{}'; expected flags, or name=value; see ddptrain --help", text));
    }
    arguments.push_back("--" + text);
  }
  return with_config(arguments);
}

Result<void> check_data(TrainOptions& options) {
  DataOptions& data = options.data;
  const bool is_synthetic = data.kind == DatasetKind::kFake || data.kind == DatasetKind::kCrusoe;
  if (is_synthetic || !data.directory.empty()) return {};
  if (data.kind == DatasetKind::kFashionMnist) {
    data.directory = kDebianFashionMnist;
    return {};
  }
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("--dataset {} needs --data-dir, the directory of its files", name_of(data.kind)));
}

Result<void> read_injections(TrainOptions& options, std::span<const std::string> texts) {
  for (const std::string& text : texts) {
    const auto injection = parse_injection(text);
    if (!injection) return with_context("--inject", injection.error());
    options.injections.push_back(*injection);
  }
  return {};
}

/// The optimizer's own defaults, unless flags override them.
OptimizerOptions optimizer_of(const RawOptions& raw) {
  const OptimizerOptions& given = raw.options.optimizer;
  OptimizerOptions optimizer = default_options(optimizer_words().at(raw.optimizer));
  const bool is_sgd = optimizer.kind == OptimizerKind::kSgd;
  constexpr double kSgdMomentum = 0.9;
  optimizer.learning_rate = given.learning_rate;
  optimizer.is_nesterov = given.is_nesterov;
  optimizer.momentum = raw.momentum.value_or(is_sgd ? kSgdMomentum : optimizer.momentum);
  optimizer.weight_decay = raw.weight_decay.value_or(optimizer.weight_decay);
  return optimizer;
}

/// The model that the data needs, unless flags override it.
ModelOptions model_of(const RawOptions& raw, DatasetKind data) {
  ModelOptions model = default_model(model_words().at(raw.model));
  model.dropout = raw.options.model.dropout;
  if (raw.image_side) model.image.side = *raw.image_side;
  if (raw.options.counts_parameters) {
    model.classes = raw.classes.value_or(model.classes);
    return model;
  }
  model.image = image_of(data, model.image);
  if (raw.image_side) model.image.side = *raw.image_side;
  model.classes = raw.classes.value_or(classes_of(data).value_or(model.classes));
  return model;
}

/// Refuses flags that would have no effect.
Result<void> check_device(const TrainOptions& options) {
  const NumericOptions& numerics = options.numerics;
  if (numerics.is_deterministic && numerics.benchmarks_cudnn) {
    return make_error(
        Errc::kInvalidArgument,
        "--cudnn-benchmark chooses by measured times, which differ between runs; leave it or "
        "--deterministic out");
  }
  return check_flags_of_gpus(options);
}

/// Each epoch's order is seeded with the sum, which Python refuses beyond 64 bits.
Result<void> check_sampler_seed(const TrainOptions& options) {
  const auto last = static_cast<std::uint64_t>(options.end_epoch() - 1);
  if (options.sampler_seed <= std::numeric_limits<std::uint64_t>::max() - last) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "--sampler-seed {}: epoch numbers up to {} are added to it, and the sum does not fit in "
          "64 bits; give a smaller one",
          options.sampler_seed,
          last));
}

/// A burn-in tests machines: it saves nothing, and starts over after a restart.
Result<void> check_burn_in(const TrainOptions& options) {
  if (!options.burn_in_hours) return {};
  const char* const other = options.snapshots.directory    ? "--snapshot-dir"
                            : options.snapshots.begun_with ? "--resume"
                            : options.checkpoints.style    ? "--checkpoint-style"
                            : options.evaluated            ? "--evaluate"
                                                           : nullptr;
  if (other == nullptr) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("--burn-in saves, loads and evaluates nothing; leave {} out", other));
}

Result<void> check_evaluation(const TrainOptions& options) {
  if (!options.evaluated || !options.snapshots.begun_with) return {};
  return make_error(
      Errc::kInvalidArgument,
      "--evaluate and --resume both give initial weights; leave one of them out");
}

/// What to record: by the flags, else as the system does whose line style is used.
Result<ProfileOptions> profile_of(const RawOptions& raw) {
  ProfileOptions profile = raw.options.profile;
  if (!profile.directory && (raw.profile_schedule || raw.profile_epochs)) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} needs --profile DIR",
            raw.profile_schedule ? "--profile-schedule" : "--profile-epochs"));
  }
  const TrainOptions& options = raw.options;
  const auto& captured = profile.captured_epoch;
  if (options.evaluated && (profile.directory || captured)) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--evaluate trains no step to profile; leave it or {} out",
            profile.directory ? "--profile" : "--profile-epoch"));
  }
  const bool is_of_run = options.burn_in_hours || (captured && *captured >= options.first_epoch &&
                                                   *captured < options.end_epoch());
  if (captured && !is_of_run) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--profile-epoch {}: this run has epochs {} to {}",
            *captured,
            options.first_epoch,
            options.end_epoch() - 1));
  }
  profile.epochs = raw.profile_epochs.value_or(profile.epochs);
  if (raw.options.report.style.starts_with("crusoe")) profile.schedule = kCrusoeProfile;
  if (!raw.profile_schedule) return profile;
  const auto schedule = parse_profile_schedule(*raw.profile_schedule);
  if (!schedule) return with_context("--profile-schedule", schedule.error());
  profile.schedule = *schedule;
  return profile;
}

Result<TrainOptions> checked(RawOptions raw) {
  TrainOptions& options = raw.options;
  options.data.kind = dataset_words().at(raw.dataset);
  options.data.is_stratified = raw.split == "stratified";
  options.data.image_side = raw.image_side;
  if (options.data.limit_train == 0) options.data.limit_train.reset();
  if (options.data.limit_test == 0) options.data.limit_test.reset();
  options.device = device_words().at(raw.device);
  options.precision = precision_words().at(raw.precision);
  options.ddp.compression = compression_words().at(raw.compression);
  options.peer_timeout = std::chrono::seconds(raw.peer_timeout_s);
  options.sampler_seed = raw.sampler_seed.value_or(options.seed);
  options.evaluate_every_epochs = raw.evaluate_every_epochs.value_or(0);
  if (raw.leaves_wandb_out) options.report.wandb_dir.reset();
  options.model = model_of(raw, options.data.kind);
  options.has_classes_of_data = !raw.classes && !classes_of(options.data.kind);
  options.optimizer = optimizer_of(raw);
  options.schedule.kind = schedule_words().at(raw.schedule);
  options.schedule.base = options.optimizer.learning_rate;
  options.schedule.epochs = options.end_epoch();

  auto done = options.counts_parameters ? Result<void>() : check_data(options);
  if (done) done = check_model(options.model);
  if (done) done = check_optimizer(options.optimizer);
  if (done) done = check_schedule(options.schedule);
  if (done) done = check_device(options);
  if (done) done = read_injections(options, raw.injections);
  if (done) done = read_files(options, raw);
  if (done) done = check_sampler_seed(options);
  if (done) done = check_burn_in(options);
  if (done) done = check_evaluation(options);
  if (!done) return done.error();
  auto profile = profile_of(raw);
  if (!profile) return profile.error();
  options.profile = *std::move(profile);
  return std::move(options);
}

}  // namespace

Result<std::variant<TrainOptions, PrintAndLeave>> parse_train_options(
    int argc, const char* const* argv) {
  const std::span<const char* const> words(argv, static_cast<std::size_t>(argc));
  auto arguments = with_config({words.begin() + 1, words.end()});
  if (!arguments) return arguments.error();
  auto parsed = parse(*arguments);
  if (!parsed) return parsed.error();
  if (auto const* raw = std::get_if<RawOptions>(&*parsed);
      raw != nullptr && !raw->overrides.empty()) {
    arguments = with_overrides(*std::move(arguments), raw->overrides);
    if (!arguments) return arguments.error();
    parsed = parse(*std::move(arguments));
    if (!parsed) return parsed.error();
  }
  if (auto* print = std::get_if<PrintAndLeave>(&*parsed); print != nullptr)
    return {std::move(*print)};
  auto options = checked(std::get<RawOptions>(*std::move(parsed)));
  if (!options) return options.error();
  return {*std::move(options)};
}

}  // namespace ddprun
