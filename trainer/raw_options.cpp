#include "trainer/raw_options.hpp"

#include "base/flag_checks.hpp"
#include "base/worker_contract.hpp"
#include "trainer/core/line_style.hpp"
#include "trainer/core/python_checkpoint.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <ranges>

namespace ddprun {
namespace {

constexpr std::int64_t kCountMax = 1'000'000'000;
constexpr int kThreadsMax = 1024;
constexpr int kLocalRankMax = 1'000'000;
constexpr double kBurnInHoursMin = 1e-6;
constexpr double kBurnInHoursMax = 10'000;

/// Accepts the name of a file, without a directory.
CLI::Validator file_name() {
  return {
      [](const std::string& text) -> std::string {
        const bool is_name =
            !text.empty() && text.find('/') == std::string::npos && text != "." && text != "..";
        return is_name ? "" : fmt::format("'{}' is not the name of a file", text);
      },
      ""};
}

template <class Kinds>
auto words_for(const Kinds& kinds) {
  std::map<std::string, std::ranges::range_value_t<Kinds>> words;
  for (const auto kind : kinds) {
    words.emplace(name_of(kind), kind);
  }
  return words;
}

/// A flag that stands for `value` of an option: of the two, the one given last counts, because both
/// set the value when they are parsed.
void add_choice(
    CLI::App& app,
    const std::string& flag,
    std::string& choice,
    const char* value,
    const std::string& stands_for) {
  app.add_flag_callback(
         flag, [&choice, value] { choice = value; }, "Short for " + stands_for)
      ->trigger_on_parse();
}

void add_launch_flags(CLI::App& app, RawOptions& raw) {
  app.add_flag("--distributed", raw.options.must_be_distributed, "Fail instead of training alone");
  app.add_flag(
      "--print-env",
      raw.options.prints_environment,
      "Print RANK, WORLD_SIZE and so on with their sources, and exit");
  app.add_option(
         "--local-rank",
         raw.options.local_rank,
         "Local rank, as torch.distributed.launch passes it; LOCAL_RANK takes precedence")
      ->transform(count(0, kLocalRankMax));
  app.add_option(
         "--config", "YAML file of flags without hyphens; the command line takes precedence")
      ->type_name("FILE");
  app.add_option("NAME=VALUE", raw.overrides, "Flags in the form of a configuration");
}

void add_data_flags(CLI::App& app, RawOptions& raw) {
  DataOptions& data = raw.options.data;
  app.add_option("--dataset", raw.dataset, "Data set")
      ->check(one_of(choices_of(dataset_words())))
      ->trigger_on_parse();
  add_choice(app, "--use-fake-data", raw.dataset, name_of(DatasetKind::kFake), "--dataset fake");
  app.add_option(
         "--data-dir,--dataset-path", data.directory, "Directory of the samples, or an archive")
      ->check(not_empty())
      ->envname("DATA_DIR")
      ->type_name("DIR");
  app.add_option(
         "--transforms", data.transforms, "Transforms of images (default: the data set's own)")
      ->check(not_empty())
      ->type_name("NAME");
  app.add_option("--limit-train-samples", data.limit_train, "Use only the first N; 0: all")
      ->transform(count(0, kCountMax));
  app.add_option(
         "--limit-test-samples,--limit-val-samples",
         data.limit_test,
         "Use only the first N; 0: all")
      ->transform(count(0, kCountMax));
  app.add_option(
         "--validation-share",
         data.validation_share,
         "Fraction of the training samples to hold out")
      ->check(between(0, 0.9));
  app.add_option("--validation-split", raw.split, "How to choose them")
      ->check(one_of({"random", "stratified"}));
  app.add_option("--validation-seed,--val-seed", data.validation_seed, "Seed of that choice")
      ->transform(seed());
  app.add_flag(
      "--drop-last", data.drops_tail, "Drop the remainder of the world size instead of padding");
  app.add_option("--workers,--num-workers", data.workers, "Threads per rank that decode images")
      ->transform(count(0, kThreadsMax));
  app.add_option("--prefetch", data.prefetch, "Batches to prepare ahead")->transform(count(1, 64));
  app.add_flag(
      "--python-transforms",
      data.draws_as_python,
      "Draw crops and flips like Python's main process");
  app.add_option("--fake-train-samples,--num-samples", data.fake_train, "Synthetic samples")
      ->transform(count(1, kCountMax));
  app.add_option("--fake-test-samples", data.fake_test, "Synthetic test samples")
      ->transform(count(1, kCountMax));
}

void add_model_flags(CLI::App& app, RawOptions& raw) {
  TrainOptions& options = raw.options;
  app.add_option("--model,--model-name", raw.model, "Model architecture")
      ->check(one_of(choices_of(model_words())));
  app.add_option("--classes", raw.classes, "Number of classes of the model")
      ->transform(count(1, 1'000'000));
  app.add_option("--image-size", raw.image_side, "Side of the images in pixels")
      ->transform(count(1, 4096));
  app.add_option("--dropout", options.model.dropout, "Dropout of a vision transformer")
      ->check(between(0, 0.99));
  app.add_option(
         "--pretrained",
         options.pretrained,
         "Initial weights, safetensors or torch.save; without FILE, the file that torchvision "
         "downloads")
      ->check(not_empty())
      ->type_name("[FILE]");
  app.add_option(
         "--evaluate", options.evaluated, "Test the weights of a file or a snapshot, and exit")
      ->check(not_empty())
      ->type_name("PATH");
  app.add_flag("--sync-bn", options.synchronises_batch_norm, "Batch statistics over all ranks");
  app.add_flag(
      "--param-count",
      options.counts_parameters,
      "Print the number of the model's parameters, and exit");
}

void add_training_flags(CLI::App& app, RawOptions& raw) {
  TrainOptions& options = raw.options;
  app.add_option("--epochs,--num-epochs,--total-epochs", options.epochs, "Number of epochs")
      ->transform(count(1, kCountMax));
  app.add_option(
         "--burn-in,--hours", options.burn_in_hours, "Train for this many hours, to test machines")
      ->check(between(kBurnInHoursMin, kBurnInHoursMax))
      ->type_name("HOURS");
  app.add_option("--first-epoch", options.first_epoch, "Number of the first epoch")
      ->transform(count(0, kCountMax));
  app.add_option("--batch-size", options.batch_size, "Samples per rank and pass")
      ->transform(count(1, 1'000'000));
  app.add_option(
         "--accumulate,--gradient-accumulation-steps", options.accumulate, "Passes per step")
      ->transform(count(1, 1'000'000));
  app.add_option("--clip-norm", options.clip_norm, "Maximum norm of the gradients")
      ->check(between(1e-12, 1e12));
  app.add_option("--amp", raw.precision, "Autocast type of the forward pass")
      ->check(one_of(choices_of(precision_words())))
      ->trigger_on_parse();
  add_choice(app, "--use-amp", raw.precision, name_of(Precision::kBFloat16), "--amp bf16");
  app.add_option("--seed,--random-seed", options.seed, "Seed of weights and dropout")
      ->transform(seed())
      ->envname(contract::kTaskId);
  app.add_option(
         "--sampler-seed", raw.sampler_seed, "Seed of the order of samples (default: --seed)")
      ->transform(seed());
  app.add_option("--num-threads", options.num_threads, "Threads per rank; results depend on it")
      ->transform(count(1, kThreadsMax));
  app.add_option("--device", raw.device, "Device; auto: GPUs if there are enough")
      ->check(one_of(choices_of(device_words())));
  app.add_flag(
      "--deterministic",
      options.numerics.is_deterministic,
      "Use only operators that give the same bits in each run");
  app.add_option("--compile", options.compile, "No effect: print alternatives to torch.compile")
      ->type_name("[NAME]");
  app.add_flag("--tf32", options.numerics.uses_tf32, "Use tensor cores for float32 on GPUs");
  app.add_flag(
      "--cudnn-benchmark", options.numerics.benchmarks_cudnn, "Find the fastest convolutions");
  app.add_option(
         "--evaluate-every-epochs",
         raw.evaluate_every_epochs,
         "Test every N epochs; 0: only at the end")
      ->transform(count(0, kCountMax));
}

void add_optimizer_flags(CLI::App& app, RawOptions& raw) {
  OptimizerOptions& optimizer = raw.options.optimizer;
  ScheduleOptions& schedule = raw.options.schedule;
  app.add_option("--optimizer", raw.optimizer, "Optimizer")
      ->check(one_of(choices_of(optimizer_words())));
  app.add_option(
         "--learning-rate,--lr",
         optimizer.learning_rate,
         "Learning rate of the first step after the warm-up")
      ->check(between(0, 1e6));
  app.add_option("--momentum", raw.momentum, "Of SGD")->check(between(0, 1));
  app.add_flag("--nesterov", optimizer.is_nesterov, "Nesterov momentum, for SGD with momentum");
  app.add_option("--weight-decay", raw.weight_decay, "Weight decay of all weights")
      ->check(between(0, 1e6));
  app.add_option("--schedule", raw.schedule, "Learning rate schedule")
      ->check(one_of(choices_of(schedule_words())));
  app.add_option("--step-size", schedule.step_epochs, "Epochs between drops of --schedule step")
      ->transform(count(1, kCountMax));
  app.add_option("--gamma", schedule.gamma, "Factor of each drop")->check(between(0, 1e6));
  app.add_option(
         "--warmup-epochs",
         schedule.warmup_epochs,
         "Epochs of the warm-up, if the schedule has one")
      ->transform(count(0, kCountMax));
}

void add_ddp_flags(CLI::App& app, RawOptions& raw) {
  DdpOptions& ddp = raw.options.ddp;
  app.add_option("--bucket-cap-mb", ddp.bucket_cap_mib, "Size of gradient buckets in MiB")
      ->transform(count(1, 1'000'000));
  app.add_flag("--find-unused", ddp.finds_unused, "Some parameters have no gradient in a step");
  app.add_flag("--static-graph", ddp.has_static_graph, "Every step uses the same parameters");
  app.add_option("--compress", raw.compression, "Compression of gradients between ranks")
      ->check(one_of(choices_of(compression_words())));
  app.add_option("--pg-timeout", raw.peer_timeout_s, "Timeout of collectives in seconds")
      ->transform(count(1, 1'000'000));
  app.add_option(
         "--check-replicas-every-steps",
         raw.options.check_replicas_every_steps,
         "Compare the weights of all ranks every N steps; 0: never")
      ->transform(count(0, kCountMax));
}

void add_output_flags(CLI::App& app, RawOptions& raw) {
  ReportOptions& report = raw.options.report;
  app.add_option("--log-style", report.style, "Style of the lines on stdout")
      ->check(one_of(line_style_names()));
  app.add_option(
         "--log-every,--logging-interval",
         report.every_steps,
         "Steps between two step lines; 0: the style's default")
      ->transform(count(0, kCountMax));
  app.add_flag("-v,--verbose", report.verbosity, "Print more; up to three times");
  app.add_option("--peak-tflops", raw.options.peak_tflops, "Peak TFLOPS of a device, for MFU")
      ->check(between(1e-6, 1e6));
  const auto add_file = [&app](const char* flag, auto& path, const char* what, const char* type) {
    return app.add_option(flag, path, what)->check(not_empty())->type_name(type);
  };
  add_file("--metrics-file", report.metrics_file, "JSON lines, appended by rank 0", "FILE");
  add_file("--csv-file", report.csv_file, "The same as a CSV table", "FILE");
  add_file("--tensorboard-dir", report.tensorboard_dir, "Event files for TensorBoard", "DIR");
  add_file("--wandb-dir", report.wandb_dir, "An offline run for wandb sync", "DIR");
  app.add_flag("--no-wandb", raw.leaves_wandb_out, "No wandb run, even with --wandb-dir");
  add_file("--wandb-project", report.wandb_project, "Project of the run in wandb", "NAME")
      ->envname("WANDB_PROJECT");
  add_file("--wandb-group", report.wandb_group, "Group of the run in wandb", "NAME")
      ->envname("WANDB_RUN_GROUP");
  add_file(
      "--wandb-run-id", report.wandb_run_id, "Id of the run in wandb, to continue it later", "ID")
      ->envname("WANDB_RUN_ID");
  add_file("--run-name", report.run_name, "Name of the run in all of these", "NAME");
  add_file("--sample-trace", report.sample_trace, "JSON lines, appended by every rank", "FILE");
}

void add_checkpoint_flags(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "--checkpoint-style", raw.checkpoint_style, "Format of checkpoints for Python scripts")
      ->check(one_of(checkpoint_style_names()));
  app.add_option(
         "--checkpoint-dir",
         raw.checkpoint_directory,
         "Their directory (default: CHECKPOINT_DIR, else that of the snapshots, else "
         "./checkpoints)")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option(
         "--checkpoint-every-epochs,--checkpoint-interval-epochs,--checkpoint-interval",
         raw.checkpoint_every_epochs,
         "Epochs between two checkpoints")
      ->transform(count(1, kCountMax));
  app.add_option(
         "--model-dir",
         raw.model_directory,
         "Directory for the weights of every tenth and the last epoch")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option("--model-filename", raw.model_file, "File name of these weights")
      ->check(file_name())
      ->type_name("NAME");
  app.add_flag(
      "--link-checkpoints", raw.options.links_checkpoints, "Link ./checkpoints to their directory");
}

void add_profile_flags(CLI::App& app, RawOptions& raw) {
  ProfileOptions& profile = raw.options.profile;
  app.add_option("--profile", profile.directory, "Directory for traces of some steps of each rank")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option(
         "--profile-schedule",
         raw.profile_schedule,
         "Steps to skip, to warm up and to record; cycles")
      ->type_name("WAIT,WARMUP,ACTIVE,REPEAT");
  app.add_option("--profile-epoch", profile.captured_epoch, "Epoch to capture with nsys")
      ->transform(count(0, kCountMax));
  app.add_option(
         "--profile-epochs",
         raw.profile_epochs,
         "Profile only the first N epochs of the run (default: 2)")
      ->transform(count(1, kCountMax));
}

void add_snapshot_flags(CLI::App& app, RawOptions& raw) {
  SnapshotOptions& snapshots = raw.options.snapshots;
  app.add_option("--snapshot-dir", snapshots.directory, "Save snapshots here, and resume from them")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option("--snapshot-every-steps", snapshots.every_steps, "Steps between snapshots")
      ->transform(count(1, kCountMax));
  app.add_option("--keep-snapshots", snapshots.keep, "Number of snapshots to keep")
      ->transform(count(1, 1'000'000));
  app.add_option("--keep-best", raw.best, "Also keep the best one, by this result of validation")
      ->check(one_of({name_of(BestMetric::kAccuracy), name_of(BestMetric::kLoss)}));
  app.add_option(
         "--resume",
         raw.resumed,
         "Snapshot to resume from if --snapshot-dir has none; without a path, the file of "
         "--model-dir")
      ->check(not_empty())
      ->type_name("[PATH]");
  app.add_option(
         "--inject", raw.injections, "Fault for a drill: FAULT@STEP[:MS][,rank=N][,attempt=N]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FAULT@STEP");
  // For the parity tests; hidden from --help.
  app.add_option("--test-flip-gradient-bit-at-step", raw.options.flip_gradient_bit_at_step)
      ->transform(count(1, kCountMax))
      ->group("");
}

}  // namespace

const std::map<std::string, DatasetKind>& dataset_words() {
  using enum DatasetKind;
  static const auto words = words_for(std::array{
      kMnist, kFashionMnist, kCifar10, kTinyImagenet, kImageFolder, kImagenet, kFake, kCrusoe});
  return words;
}

const std::map<std::string, ModelKind>& model_words() {
  static const auto words = words_for(all_model_kinds());
  return words;
}

const std::map<std::string, OptimizerKind>& optimizer_words() {
  static const auto words = words_for(kOptimizerKinds);
  return words;
}

const std::map<std::string, ScheduleKind>& schedule_words() {
  static const auto words = words_for(kScheduleKinds);
  return words;
}

const std::map<std::string, Precision>& precision_words() {
  using enum Precision;
  static const auto words = words_for(std::array{kFloat32, kBFloat16, kFloat16});
  return words;
}

const std::map<std::string, DeviceKind>& device_words() {
  using enum DeviceKind;
  static const auto words = words_for(std::array{kAuto, kCpu, kCuda});
  return words;
}

const std::map<std::string, Compression>& compression_words() {
  using enum Compression;
  static const auto words = words_for(std::array{kNone, kFp16, kBf16});
  return words;
}

void add_flags(CLI::App& app, RawOptions& raw) {
  add_launch_flags(app, raw);
  add_data_flags(app, raw);
  add_model_flags(app, raw);
  add_training_flags(app, raw);
  add_optimizer_flags(app, raw);
  add_ddp_flags(app, raw);
  add_output_flags(app, raw);
  add_profile_flags(app, raw);
  add_snapshot_flags(app, raw);
  add_checkpoint_flags(app, raw);
}

}  // namespace ddprun
