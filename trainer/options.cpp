#include "trainer/options.hpp"

#include "base/flag_checks.hpp"
#include "base/nearest.hpp"
#include "base/worker_contract.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kDebianFashionMnist[] = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t kCountMax = 1'000'000'000;
constexpr int kThreadsMax = 1024;

const std::map<std::string, DatasetKind> kDatasets = {
    {name_of(DatasetKind::kMnist), DatasetKind::kMnist},
    {name_of(DatasetKind::kFashionMnist), DatasetKind::kFashionMnist}};
const std::map<std::string, ModelKind> kModels = {
    {name_of(ModelKind::kConvNet), ModelKind::kConvNet},
    {name_of(ModelKind::kSimpleConvNet), ModelKind::kSimpleConvNet}};

/// A flag before it is checked against the others.
struct Raw {
  TrainOptions options;
  std::string dataset = name_of(options.dataset);
  std::string model = name_of(options.model);
  std::string device = "cpu";
  std::optional<std::int64_t> sampler_seed;
};

void add_data_flags(CLI::App& app, Raw& raw) {
  TrainOptions& options = raw.options;
  app.add_option("--dataset", raw.dataset, "The images")->check(one_of(words_of(kDatasets)));
  app.add_option("--data-dir", options.data_dir, "Directory of the IDX files, gzipped or not")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option("--limit-train-samples", options.limit_train_samples, "Use the first N only")
      ->check(count(1, kCountMax));
  app.add_option("--limit-test-samples", options.limit_test_samples, "Use the first N only")
      ->check(count(1, kCountMax));
}

void add_training_flags(CLI::App& app, Raw& raw) {
  constexpr std::int64_t kSeedMax = std::numeric_limits<std::int32_t>::max();
  TrainOptions& options = raw.options;
  app.add_option("--model", raw.model, "The net; simple_conv_net has dropout")
      ->check(one_of(words_of(kModels)));
  app.add_option("--epochs", options.epochs, "How many")->check(count(1, kCountMax));
  app.add_option("--first-epoch", options.first_epoch, "Number of the first epoch")
      ->check(count(0, kCountMax));
  app.add_option("--batch-size", options.batch_size, "Samples per rank and step")
      ->check(count(1, 1'000'000));
  app.add_option("--learning-rate", options.learning_rate, "Of SGD")->check(between(0, 1e6));
  app.add_option("--momentum", options.momentum, "Of SGD")->check(between(0, 1));
  app.add_option("--seed", options.seed, "Of weights and dropout")
      ->check(count(0, kSeedMax))
      ->envname(contract::kTaskId);
  app.add_option("--sampler-seed", raw.sampler_seed, "Of the order of samples; else --seed")
      ->check(count(0, kSeedMax));
  app.add_option("--num-threads", options.num_threads, "Of each rank; results depend on it")
      ->check(count(1, kThreadsMax));
  app.add_option("--device", raw.device, "Where to train")->check(one_of({"cpu"}));
}

void add_launch_flags(CLI::App& app, Raw& raw) {
  app.add_flag("--distributed", raw.options.must_be_distributed, "Refuse to train alone");
  app.add_flag(
      "--print-env",
      raw.options.prints_environment,
      "Print RANK, WORLD_SIZE and the like, and who says so, instead of training");
}

void add_output_flags(CLI::App& app, Raw& raw) {
  TrainOptions& options = raw.options;
  app.add_option("--metrics-file", options.metrics_file, "JSON lines, appended to by rank 0")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("--sample-trace", options.sample_trace, "JSON lines, appended to by every rank")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option(
         "--snapshot-dir", options.snapshot_dir, "Save snapshots here, and resume from them")
      ->check(not_empty())
      ->type_name("DIR");
  app.add_option("--snapshot-every-steps", options.snapshot_every_steps, "Steps between snapshots")
      ->check(count(1, kCountMax));
  // For the parity tests, and not in --help.
  app.add_option("--test-flip-gradient-bit-at-step", options.flip_gradient_bit_at_step)
      ->check(count(1, kCountMax))
      ->group("");
}

/// What CLI11 says, as one line with a remedy.
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

Result<TrainOptions> checked(Raw raw) {
  TrainOptions options = std::move(raw.options);
  options.dataset = kDatasets.at(raw.dataset);
  options.model = kModels.at(raw.model);
  options.sampler_seed = raw.sampler_seed.value_or(options.seed);
  if (options.data_dir.empty()) {
    if (options.dataset != DatasetKind::kFashionMnist) {
      return make_error(
          Errc::kInvalidArgument,
          fmt::format(
              "--dataset {} needs --data-dir, the directory of its IDX files",
              name_of(options.dataset)));
    }
    options.data_dir = kDebianFashionMnist;
  }
  return options;
}

}  // namespace

Result<std::variant<TrainOptions, PrintAndLeave>> parse_train_options(
    int argc, const char* const* argv) {
  Raw raw;
  CLI::App app(
      "Trains an image classifier by DDP. Start it alone, with ddprun, or with srun.", "ddptrain");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "ddptrain " DDPRUN_VERSION);
  add_launch_flags(app, raw);
  add_data_flags(app, raw);
  add_training_flags(app, raw);
  add_output_flags(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {PrintAndLeave{.text = app.help()}};
  } catch (const CLI::CallForVersion&) {
    return {PrintAndLeave{.text = app.version() + "\n"}};
  } catch (const CLI::ParseError& error) {
    return refused(app, error);
  }
  auto options = checked(std::move(raw));
  if (!options) return options.error();
  return {*std::move(options)};
}

}  // namespace ddprun
