#include "trainer/train.hpp"

#include "base/time.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/dataset.hpp"
#include "trainer/ddp.hpp"
#include "trainer/metrics_file.hpp"
#include "trainer/model.hpp"
#include "trainer/process_group.hpp"
#include "trainer/progress_bar.hpp"
#include "trainer/sampler.hpp"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

namespace ddprun {
namespace {

/// The wall clock, for records that people compare with other logs.
double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// How many of `output`'s (N, 10) highest scores stand at the label.
std::int64_t count_right(const torch::Tensor& output, const torch::Tensor& labels) {
  return output.argmax(1).eq(labels).sum().item<std::int64_t>();
}

/// `sums` of all ranks together (P18).
MetricSums sum_over_ranks(Ddp& ddp, const MetricSums& sums) {
  torch::Tensor packed = torch::tensor({sums.loss, sums.correct, sums.samples}, torch::kFloat64);
  ddp.all_reduce(packed);
  const auto* sum = packed.const_data_ptr<double>();
  return {.loss = sum[0], .correct = sum[1], .samples = sum[2]};
}

/// One rank's training, from the files to the last line.
class Training {
 public:
  Training(const TrainOptions& options, const WorkerPlace& place)
      : options_(options), place_(place), bar_(place.rank == 0) {}

  Result<void> run();

 private:
  Result<void> open_files();
  void build();
  Result<void> train_epoch();
  double train_step(const Batch& batch);
  Result<void> report_epoch(Duration took);
  Result<void> finish();
  MetricSums test();

  void announce() const;
  bool is_first() const { return place_.rank == 0; }
  std::span<const std::int64_t> batch_of(
      std::span<const std::int64_t> samples, std::int64_t index) const;

  const TrainOptions& options_;
  const WorkerPlace& place_;
  std::unique_ptr<ImageDataset> train_data_;
  std::unique_ptr<ImageDataset> test_data_;
  MetricsFile metrics_;
  ProgressBar bar_;

  std::unique_ptr<Ddp> ddp_;
  std::unique_ptr<torch::optim::SGD> optimizer_;

  Progress progress_;          // the epoch under way, and the steps done
  std::int64_t consumed_ = 0;  // samples of this epoch that all ranks have seen
  MetricSums sums_;            // this rank's, of this epoch
};

Result<void> Training::run() {
  auto ready = open_files();
  if (!ready) return ready;
  build();
  announce();
  auto written = metrics_.write(start_record(progress_, place_.world, place_.attempt, wall_s()));
  if (!written) return written;

  while (progress_.epoch < options_.end_epoch()) {
    const TimePoint began = Clock::now();
    auto trained = train_epoch();
    if (trained) trained = report_epoch(Clock::now() - began);
    if (!trained) return trained;
    ++progress_.epoch;
    consumed_ = 0;
    sums_ = {};
  }
  return finish();
}

Result<void> Training::open_files() {
  auto data = ImageDataset::open(
      options_.data_dir, options_.dataset, Split::kTrain, options_.limit_train_samples);
  if (!data) return data.error();
  train_data_ = std::move(*data);
  data = ImageDataset::open(
      options_.data_dir, options_.dataset, Split::kTest, options_.limit_test_samples);
  if (!data) return data.error();
  test_data_ = std::move(*data);
  if (!is_first() || !options_.metrics_file) return {};
  auto metrics = MetricsFile::open(*options_.metrics_file);
  if (!metrics) return with_context("--metrics-file", metrics.error());
  metrics_ = std::move(*metrics);
  return {};
}

void Training::build() {
  at::set_num_threads(options_.num_threads);  // P1
  ProcessGroup group = make_process_group(place_);

  torch::manual_seed(static_cast<std::uint64_t>(options_.seed));  // P3: nothing draws in between
  std::shared_ptr<Model> model = make_model(options_.model);
  ddp_ = std::make_unique<Ddp>(std::move(model), std::move(group));
  optimizer_ = std::make_unique<torch::optim::SGD>(
      ddp_->model().parameters(),
      torch::optim::SGDOptions(options_.learning_rate).momentum(options_.momentum));
  progress_ = {.epoch = options_.first_epoch, .step = 0};
}

Result<void> Training::train_epoch() {
  ddp_->model().train();
  if (consumed_ == 0) draw_as_data_loader();
  const std::vector<std::int64_t> samples = samples_of_rank(
      epoch_order(train_data_->size(), options_.sampler_seed, progress_.epoch),
      {.rank = place_.rank, .world = place_.world},
      Tail::kPad,
      consumed_);
  const std::int64_t steps = batches_for(std::ssize(samples), options_.batch_size);

  for (std::int64_t i = 0; i < steps; ++i) {
    const Batch batch = train_data_->batch(batch_of(samples, i));
    const double loss = train_step(batch);

    ++progress_.step;
    consumed_ += batch.size() * place_.world;
    auto written = metrics_.write(step_record(progress_, loss, wall_s()));
    if (!written) return written;
    bar_.show(progress_.epoch, i + 1, steps, loss);
  }
  return {};
}

/// One update of the weights; returns this rank's mean loss before it.
double Training::train_step(const Batch& batch) {
  // ----------------------------------------------------------------------------------------------
  ddp_->zero_grad();
  const torch::Tensor output = ddp_->forward(batch.images);
  const torch::Tensor loss = ddp_->model().loss(output, batch.labels);
  loss.backward();  // averages the gradients over all ranks
  optimizer_->step();
  // ----------------------------------------------------------------------------------------------
  const double mean_loss = loss.item<double>();
  sums_.add(mean_loss, count_right(output.detach(), batch.labels), batch.size());
  return mean_loss;
}

Result<void> Training::report_epoch(Duration took) {
  bar_.clear();
  const MetricSums sums = sum_over_ranks(*ddp_, sums_);
  const double samples_per_s = sums.samples / to_seconds(took);
  if (!is_first()) return {};
  fmt::print("{}\n", epoch_line(progress_, sums, samples_per_s));
  std::fflush(stdout);
  return metrics_.write(epoch_record(progress_, sums, samples_per_s, wall_s()));
}

Result<void> Training::finish() {
  const MetricSums sums = test();
  if (!is_first()) return {};
  const Progress last{.epoch = progress_.epoch - 1, .step = progress_.step};
  const std::string hash = weights_sha256(ddp_->model());
  auto written = metrics_.write(final_record(last, sums, hash, wall_s()));
  fmt::print("{}\n", final_line(last, sums, hash));
  std::fflush(stdout);
  return written;
}

/// The test set's metrics; each rank takes its share, and no sample counts twice.
MetricSums Training::test() {
  const torch::NoGradGuard no_gradients;
  ddp_->model().eval();
  MetricSums sums;
  constexpr std::int64_t kTestBatch = 250;
  std::vector<std::int64_t> mine;
  for (std::int64_t sample = place_.rank; sample < test_data_->size(); sample += place_.world) {
    mine.push_back(sample);
  }
  for (std::size_t at = 0; at < mine.size(); at += kTestBatch) {
    const std::size_t n = std::min<std::size_t>(kTestBatch, mine.size() - at);
    const Batch batch = test_data_->batch(std::span(mine).subspan(at, n));
    const torch::Tensor output = ddp_->model().forward(batch.images);
    const double loss = ddp_->model().loss(output, batch.labels).item<double>();
    sums.add(loss, count_right(output, batch.labels), batch.size());
  }
  return sum_over_ranks(*ddp_, sums);
}

void Training::announce() const {
  if (!is_first()) return;
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : ddp_->model().parameters()) {
    parameters += parameter.numel();
  }
  fmt::print(
      "ddptrain dataset={} model={} parameters={} train_samples={} test_samples={} world={} "
      "batch_size={} threads={} kernels={} torch={}\n",
      name_of(options_.dataset),
      name_of(options_.model),
      parameters,
      train_data_->size(),
      test_data_->size(),
      place_.world,
      options_.batch_size,
      options_.num_threads,
      at::get_cpu_capability(),
      TORCH_VERSION);
  std::fflush(stdout);
}

std::span<const std::int64_t> Training::batch_of(
    std::span<const std::int64_t> samples, std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index * options_.batch_size);
  const auto size = static_cast<std::size_t>(options_.batch_size);
  return samples.subspan(at, std::min(size, samples.size() - at));
}

}  // namespace

Result<void> train(const TrainOptions& options, const WorkerPlace& place) {
  Training training(options, place);
  return training.run();
}

}  // namespace ddprun
