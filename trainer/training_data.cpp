#include "trainer/training_data.hpp"

#include "base/check.hpp"
#include "base/environment.hpp"
#include "trainer/core/cpu_share.hpp"
#include "trainer/core/split.hpp"
#include "trainer/core/transform_plan.hpp"
#include "trainer/data/allowed_cpus.hpp"
#include "trainer/data/augmented_images.hpp"
#include "trainer/data/encoded_images.hpp"
#include "trainer/data/stored_images.hpp"
#include "trainer/data/synthetic.hpp"
#include "trainer/data/torch_draws.hpp"
#include "trainer/idx_file.hpp"
#include "trainer/sampler.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

using Images = std::shared_ptr<const ImageSource>;

/// The presets of a data set's own transforms.
struct Presets {
  const char* train;
  const char* test;
};

Presets presets_of(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::kMnist:
      return {.train = "mnist", .test = "mnist"};
    case DatasetKind::kFashionMnist:
      return {.train = "fashion-mnist", .test = "fashion-mnist"};
    case DatasetKind::kCifar10:
      return {.train = "cifar10-plain", .test = "cifar10-plain"};
    case DatasetKind::kFake:
      return {.train = "plain", .test = "plain"};
    default:
      return {.train = "imagenet-train", .test = "imagenet-eval"};
  }
}

/// The test preset that corresponds to the training preset `preset`: the same without randomness.
std::string test_preset(const std::string& preset) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPartners = {{
      {"cifar10-augment", "cifar10-eval"},
      {"imagenet-train", "imagenet-eval"},
      {"tiny-train", "tiny-eval"},
  }};
  for (const auto& [train, test] : kPartners) {
    if (preset == train) return std::string(test);
  }
  return preset;
}

Result<TransformPlan> plan_of(const std::string& preset, ImageShape image) {
  auto plan = transform_plan(preset);
  if (!plan) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--transforms '{}' is not one of {}", preset, fmt::join(transform_presets(), ", ")));
  }
  const bool resizes = plan->fit == Fit::kResizedCrop || plan->fit == Fit::kCentreCrop;
  if (resizes) plan = with_side(*plan, image.side);
  if (plan->side == kOwnSide) {
    plan->side = image.side;
    plan->channels = image.channels;
  }
  if (plan->side == image.side && plan->channels == image.channels) return *plan;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "--transforms {} yields {} x {} x {}, but the model needs {} x {} x {}; see --image-size "
          "and --transforms",
          preset,
          plan->channels,
          plan->side,
          plan->side,
          image.channels,
          image.side,
          image.side));
}

std::int64_t classes_of_made_up(DatasetKind kind) {
  const auto classes = classes_of(kind);
  DDPRUN_CHECK(classes.has_value());
  return *classes;
}

/// The directory of the IDX files: the directory itself, or the one where torchvision unpacks them.
std::string idx_directory(const DataOptions& options) {
  namespace fs = std::filesystem;
  const fs::path below = fs::path(options.directory) /
                         (options.kind == DatasetKind::kMnist ? "MNIST" : "FashionMNIST") / "raw";
  std::error_code ignored;  // an inaccessible file counts as missing
  const bool is_below = fs::is_directory(below, ignored) &&
                        !find_data_file(options.directory, "train-images-idx3-ubyte");
  return is_below ? below.string() : options.directory;
}

/// Numbered like torchvision's FakeData: test samples are the first of the training samples.
Images fake_images(const DataOptions& options, ImageShape image, DataSplit split) {
  const bool is_train = split == DataSplit::kTrain;
  return std::make_shared<FakeImages>(FakeImages::Options{
      .size = is_train ? options.fake_train : options.fake_test,
      .image = {.height = image.side, .width = image.side},
      .channels = image.channels,
      .classes = classes_of_made_up(options.kind)});
}

Result<Images> open_images(const DataOptions& options, ImageShape image, DataSplit split) {
  if (options.kind == DatasetKind::kFake) return fake_images(options, image, split);
  auto images = options.kind == DatasetKind::kCifar10
                    ? StoredImages::open_cifar10(options.directory, split)
                : options.kind == DatasetKind::kMnist || options.kind == DatasetKind::kFashionMnist
                    ? StoredImages::open_idx(idx_directory(options), split)
                    : EncodedImages::open(options.directory, split);
  if (!images) return images.error();
  return Images(*std::move(images));
}

/// Keeps only the first `limit` samples.
void cut(std::vector<std::int64_t>& samples, std::optional<std::int64_t> limit) {
  if (limit && *limit < std::ssize(samples)) samples.resize(static_cast<std::size_t>(*limit));
}

std::vector<std::int64_t> all_of(std::int64_t size) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(size));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

/// Splits `train` into the samples to train on and those to hold out.
void hold_out(
    const DataOptions& options,
    const SampleSource& source,
    std::int64_t classes,
    std::vector<std::int64_t>& train,
    std::vector<std::int64_t>& held_out) {
  std::vector<std::int64_t> order;
  for (const std::int64_t at : random_order(std::ssize(train), options.validation_seed)) {
    order.push_back(train[static_cast<std::size_t>(at)]);
  }
  // The label of a fake image is drawn after its pixels: a quarter of an hour for all of them.
  if (options.is_stratified && options.kind != DatasetKind::kFake) {
    StratifiedSplit parts =
        stratified_split(order, classes, options.validation_share, [&source](std::int64_t sample) {
          return source.label(sample);
        });
    train = std::move(parts.train);
    held_out = std::move(parts.held_out);
    return;
  }
  const std::array fractions = {1 - options.validation_share, options.validation_share};
  auto parts = random_split(order, split_sizes(std::ssize(order), fractions));
  train = std::move(parts[0]);
  held_out = std::move(parts[1]);
}

std::unique_ptr<SampleSource> augmented(
    const DataOptions& options, Images images, const TransformPlan& plan, std::uint64_t seed) {
  if (!options.draws_as_python) {
    return std::make_unique<AugmentedImages>(std::move(images), plan, seed);
  }
  // One per process, like the generator from which it draws.
  static TorchDraws draws(at::detail::getDefaultCPUGenerator());
  return std::make_unique<AugmentedImages>(std::move(images), plan, draws);
}

/// Labels are indices into the list of classes: with different lists they would mean other classes.
Result<void> check_same_classes(
    const std::string& directory,
    const std::vector<std::string>& train,
    const std::vector<std::string>& test) {
  const auto [in_train, in_test] = std::ranges::mismatch(train, test);
  if (in_train == train.end() && in_test == test.end()) return {};
  // Both are sorted: the smaller name is the one that the other list lacks.
  const bool lacks_test =
      in_test == test.end() || (in_train != train.end() && *in_train < *in_test);
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "--data-dir '{}' has class '{}' among the samples to {}, but not among those to {}; give "
          "both the same classes",
          directory,
          lacks_test ? *in_train : *in_test,
          lacks_test ? "train with" : "test with",
          lacks_test ? "test with" : "train with"));
}

TrainingData smeared_noise(const DataOptions& options, ImageShape image) {
  const auto set = [&](std::int64_t size, std::optional<std::int64_t> limit) {
    SampleSet made{
        .source = std::make_unique<SmearedNoise>(SmearedNoise::Options{
            .size = size, .side = image.side, .classes = classes_of_made_up(options.kind)}),
        .samples = all_of(size)};
    cut(made.samples, limit);
    return made;
  };
  return {
      .train = set(options.fake_train, options.limit_train),
      .test = set(options.fake_test, options.limit_test),
      .classes = classes_of_made_up(options.kind),
      .is_decoded = true};
}

}  // namespace

Result<TrainingData> open_training_data(
    const DataOptions& options, ImageShape image, std::uint64_t seed) {
  if (options.kind == DatasetKind::kCrusoe) return smeared_noise(options, image);
  const Presets own = presets_of(options.kind);
  const std::string preset = options.transforms.value_or(own.train);
  const auto train_plan = plan_of(preset, image);
  if (!train_plan) return train_plan.error();
  const auto test_plan = plan_of(options.transforms ? test_preset(preset) : own.test, image);
  if (!test_plan) return test_plan.error();

  auto train = open_images(options, image, DataSplit::kTrain);
  if (!train) return train.error();
  const bool holds_out = options.validation_share > 0;
  auto test = holds_out ? train : open_images(options, image, DataSplit::kTest);
  if (!test) return test.error();

  const auto same = check_same_classes(options.directory, (*train)->classes(), (*test)->classes());
  if (!same) return same.error();

  TrainingData data;
  data.classes = std::ssize((*train)->classes());
  data.is_decoded = options.kind == DatasetKind::kTinyImagenet ||
                    options.kind == DatasetKind::kImageFolder ||
                    options.kind == DatasetKind::kImagenet || options.kind == DatasetKind::kFake;
  data.train.source = augmented(options, *train, *train_plan, seed);
  data.test.source = std::make_unique<AugmentedImages>(*test, *test_plan, seed);
  data.train.samples = all_of((*train)->size());
  if (holds_out) {
    hold_out(options, *data.train.source, data.classes, data.train.samples, data.test.samples);
  } else {
    data.test.samples = all_of((*test)->size());
  }
  cut(data.train.samples, options.limit_train);
  cut(data.test.samples, options.limit_test);
  return data;
}

int data_workers(const DataOptions& options, const TrainingData& data, int local_world) {
  if (options.draws_as_python) return 0;
  if (options.workers) return *options.workers;
  if (!data.is_decoded) return 0;  // copying and a table look-up are faster than a thread
  return default_data_workers(cpu_share(current_environment(), local_world), allowed_cpus());
}

}  // namespace ddprun
