// Measures the images per second of the loader, without training:
//
//   loader_bench DATA_DIR PRESET BATCH WORKERS [EPOCHS]
//
// DATA_DIR as for EncodedImages. Prints one line of JSON; scripts/bench_loader.py has Python's.

#include "base/time.hpp"
#include "trainer/data/augmented_images.hpp"
#include "trainer/data/encoded_images.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/sampler.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {
namespace {

/// The number of images of an epoch; sets `first` to the time of the first batch.
Result<std::int64_t> load_epoch(
    Loader& loader, const SampleSource& source, std::int64_t epoch, TimePoint& first) {
  auto const started = loader.start(epoch_order(source.size(), 0, epoch), epoch);
  if (!started) return started.error();
  std::int64_t images = 0;
  for (;;) {
    const auto batch = loader.next();
    if (!batch) return batch.error();
    if (!batch->has_value()) return images;
    if (images == 0) first = Clock::now();
    images += (*batch)->size();
  }
}

int run(const std::vector<std::string>& words) {
  auto opened = EncodedImages::open(words[1], DataSplit::kTrain);
  const auto plan = transform_plan(words[2]);
  if (!opened || !plan) {
    std::cerr << (opened ? "unknown preset" : opened.error().detail) << "\n";
    return 1;
  }
  const AugmentedImages source(*std::move(opened), *plan, 0);
  const int workers = std::stoi(words[4]);
  const std::int64_t epochs = words.size() > 5 ? std::stoll(words[5]) : 1;
  const TimePoint began = Clock::now();
  std::optional<double> first_s;
  std::int64_t images = 0;
  Loader loader(source, {.batch_size = std::stoll(words[3]), .workers = workers});
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    TimePoint first = began;
    const auto loaded = load_epoch(loader, source, epoch, first);
    if (!loaded) {
      std::cerr << loaded.error().detail << "\n";
      return 1;
    }
    images += *loaded;
    if (!first_s) first_s = to_seconds(first - began);
  }
  const double took_s = to_seconds(Clock::now() - began);
  std::cout << fmt::format(
      "{{\"loader\": \"ddprun\", \"workers\": {}, \"images\": {}, \"images_per_s\": {:.1f}, "
      "\"first_batch_s\": {:.4f}}}\n",
      workers,
      images,
      static_cast<double>(images) / took_s,
      first_s.value_or(0));
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() < 5) {
    std::cerr << "usage: loader_bench DATA_DIR PRESET BATCH WORKERS [EPOCHS]\n";
    return 2;
  }
  at::set_num_threads(1);
  return ddprun::run(words);
}
