// Prints the samples that the data code yields, for comparison with Python:
//
//   print_samples KIND DATA_DIR SPLIT PRESET DRAWS SEED BATCH WORKERS
//
// KIND is idx, cifar10, folder, fake or smeared; PRESET a name of transform_presets(); DRAWS is
// torch (the default generator after manual_seed(SEED)) or keyed. Writes one line of JSON about the
// data, then for each sample in order its label as an int64 and its floats, as in memory.

#include "trainer/data/augmented_images.hpp"
#include "trainer/data/encoded_images.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/data/stored_images.hpp"
#include "trainer/data/synthetic.hpp"
#include "trainer/data/torch_draws.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr int kBroken = 1;

/// The command line.
struct Request {
  std::string kind;
  std::string data_dir;
  DataSplit split;
  std::string preset;
  std::string draws;
  std::uint64_t seed;
  std::int64_t batch_size;
  int workers;
};

Result<std::unique_ptr<ImageSource>> open_images(const Request& request) {
  if (request.kind == "idx") return StoredImages::open_idx(request.data_dir, request.split);
  if (request.kind == "cifar10") return StoredImages::open_cifar10(request.data_dir, request.split);
  if (request.kind == "folder") return EncodedImages::open(request.data_dir, request.split);
  return std::unique_ptr<ImageSource>(std::make_unique<FakeImages>(
      FakeImages::Options{.size = 5, .image = {.height = 40, .width = 56}}));
}

void print_batch(const Batch& batch) {
  const torch::Tensor images = batch.images.contiguous();
  const std::int64_t floats = images.numel() / batch.size();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    std::cout.write(
        reinterpret_cast<const char*>(batch.labels.const_data_ptr<std::int64_t>() + i),
        sizeof(std::int64_t));
    std::cout.write(
        reinterpret_cast<const char*>(images.const_data_ptr<float>() + i * floats),
        floats * static_cast<std::int64_t>(sizeof(float)));
  }
}

int print_all(const SampleSource& source, const Request& request) {
  const SampleShape shape = source.shape();
  std::cout << fmt::format(
      "{{\"size\": {}, \"shape\": [{}, {}, {}]}}\n",
      source.size(),
      shape.channels,
      shape.height,
      shape.width);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(source.size()));
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  Loader loader(source, {.batch_size = request.batch_size, .workers = request.workers});
  const auto started = loader.start(samples);
  if (!started) return kBroken;
  for (;;) {
    const auto batch = loader.next();
    if (!batch) {
      std::cerr << batch.error().detail << "\n";
      return kBroken;
    }
    if (!batch->has_value()) return 0;
    print_batch(**batch);
  }
}

int run(const Request& request) {
  if (request.kind == "smeared") return print_all(SmearedNoise({.size = 3, .side = 32}), request);
  auto opened = open_images(request);
  const auto plan = transform_plan(request.preset);
  if (!opened || !plan) {
    std::cerr << (opened ? "unknown preset" : opened.error().detail) << "\n";
    return kBroken;
  }
  const std::shared_ptr<const ImageSource> images = *std::move(opened);
  if (request.draws == "keyed") {
    return print_all(AugmentedImages(images, *plan, request.seed), request);
  }
  torch::manual_seed(request.seed);
  TorchDraws draws(at::detail::getDefaultCPUGenerator());
  return print_all(AugmentedImages(images, *plan, draws), request);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() != 9) {
    std::cerr << "usage: see the head of print_samples.cpp\n";
    return 2;
  }
  at::set_num_threads(1);
  return ddprun::run(
      {.kind = words[1],
       .data_dir = words[2],
       .split = words[3] == "train" ? ddprun::DataSplit::kTrain : ddprun::DataSplit::kTest,
       .preset = words[4],
       .draws = words[5],
       .seed = std::stoull(words[6]),
       .batch_size = std::stoll(words[7]),
       .workers = std::stoi(words[8])});
}
