#include "trainer/train.hpp"

#include "base/say.hpp"
#include "base/time.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/dataset.hpp"
#include "trainer/ddp.hpp"
#include "trainer/model.hpp"
#include "trainer/process_group.hpp"
#include "trainer/progress_bar.hpp"
#include "trainer/record_file.hpp"
#include "trainer/sampler.hpp"
#include "trainer/snapshots.hpp"
#include "trainer/stop_agreement.hpp"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <array>
#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

/// A line on the way. That it is lost is no reason to end: the last one fails, too.
void tell(const std::string& line) {
  static_cast<void>(static_cast<bool>(answer(line)));
}

/// A file that `flag` names; without a path it takes everything and writes nothing.
Result<RecordFile> open_records(const char* flag, const std::optional<std::string>& path) {
  if (!path) return RecordFile();
  auto file = RecordFile::open(*path);
  if (!file) return with_context(flag, file.error());
  return file;
}

/// One rank's training, from the files to the last line.
class Training {
 public:
  Training(const TrainOptions& options, const WorkerPlace& place, const NoticeWatch* notice)
      : options_(options), place_(place), notice_(notice), bar_(place.rank == 0) {}

  Result<TrainEnd> run();

 private:
  Result<void> open_files();
  Result<void> build();
  Result<void> announce();
  Result<void> train_epoch();
  double train_step(const Batch& batch);
  void flip_gradient_bit();
  Result<void> trace(std::span<const std::int64_t> samples);
  Result<void> save_or_stop();
  Result<void> report_stop();
  Result<void> report_epoch(double samples_before, Duration took);
  Result<void> finish();
  MetricSums test();

  bool is_first() const { return place_.rank == 0; }
  std::span<const std::int64_t> batch_of(
      std::span<const std::int64_t> samples, std::int64_t index) const;

  const TrainOptions& options_;
  const WorkerPlace& place_;
  const NoticeWatch* notice_;
  std::unique_ptr<ImageDataset> train_data_;
  std::unique_ptr<ImageDataset> test_data_;
  RecordFile metrics_;
  RecordFile trace_;
  ProgressBar bar_;

  std::unique_ptr<Ddp> ddp_;
  std::unique_ptr<torch::optim::SGD> optimizer_;

  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<StopAgreement> stop_;
  bool is_stopped_ = false;
  TrainPosition at_;
};

Result<TrainEnd> Training::run() {
  auto done = open_files();
  if (done) done = build();
  if (done) done = announce();
  while (done && !is_stopped_ && at_.progress.epoch < options_.end_epoch()) {
    done = train_epoch();
  }
  if (done && !is_stopped_) done = finish();
  if (!done) return done.error();
  return is_stopped_ ? TrainEnd::kSaved : TrainEnd::kDone;
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
  const std::optional<std::string> nowhere;
  auto opened = open_records("--metrics-file", is_first() ? options_.metrics_file : nowhere);
  if (!opened) return opened.error();
  metrics_ = std::move(*opened);
  opened = open_records("--sample-trace", options_.sample_trace);
  if (!opened) return opened.error();
  trace_ = std::move(*opened);
  return {};
}

Result<void> Training::build() {
  at::set_num_threads(options_.num_threads);  // P1
  auto joined = make_process_group(place_);
  if (!joined) return joined.error();
  ProcessGroup group = *std::move(joined);

  torch::manual_seed(static_cast<std::uint64_t>(options_.seed));  // P3: nothing draws in between
  std::shared_ptr<Model> model = make_model(options_.model);
  ddp_ = std::make_unique<Ddp>(std::move(model), group);
  optimizer_ = std::make_unique<torch::optim::SGD>(
      ddp_->model().parameters(),
      torch::optim::SGDOptions(options_.learning_rate).momentum(options_.momentum));

  stop_ = std::make_unique<StopAgreement>(notice_, group);
  snapshots_ = std::make_unique<Snapshots>(options_, place_, std::move(group));
  const auto resumed = snapshots_->resume(ddp_->model(), *optimizer_);
  if (!resumed) return resumed.error();
  TrainPosition beginning;
  beginning.progress.epoch = options_.first_epoch;
  at_ = resumed->value_or(beginning);
  constexpr std::array<std::int64_t, 1> kAnySample{0};
  if (at_.progress.step > 0) ddp_->settle_buckets(train_data_->batch(kAnySample).images);
  return {};
}

Result<void> Training::train_epoch() {
  const TimePoint began = Clock::now();
  const double samples_before = at_.sums.samples;
  ddp_->model().train();
  if (at_.consumed == 0) draw_as_data_loader();
  const std::vector<std::int64_t> samples = samples_of_rank(
      epoch_order(train_data_->size(), options_.sampler_seed, at_.progress.epoch),
      {.rank = place_.rank, .world = place_.world},
      Tail::kPad,
      at_.consumed);
  const std::int64_t steps = batches_for(std::ssize(samples), options_.batch_size);

  for (std::int64_t i = 0; i < steps; ++i) {
    const std::span<const std::int64_t> numbers = batch_of(samples, i);
    const Batch batch = train_data_->batch(numbers);
    const double loss = train_step(batch);

    ++at_.progress.step;
    ++at_.batches;
    at_.consumed += batch.size() * place_.world;
    bar_.show(at_.progress.epoch, i + 1, steps, loss);
    auto kept = metrics_.write(step_record(at_.progress, loss, wall_s()));
    if (kept) kept = trace(numbers);
    if (kept && i + 1 < steps) kept = save_or_stop();
    if (!kept || is_stopped_) return kept;
  }
  auto reported = report_epoch(samples_before, Clock::now() - began);
  if (!reported) return reported;
  const Progress next{.epoch = at_.progress.epoch + 1, .step = at_.progress.step};
  at_ = TrainPosition();
  at_.progress = next;
  return save_or_stop();
}

/// Before the snapshot of this step, so that no snapshot holds a step that is not in the trace.
Result<void> Training::trace(std::span<const std::int64_t> samples) {
  if (!options_.sample_trace) return {};
  return trace_.write(sample_record(at_.progress, place_, samples));
}

/// Saves every so many steps, and when all is done: whoever starts the job again finds it finished.
/// After a notice once more, and that is all.
Result<void> Training::save_or_stop() {
  const bool done = at_.progress.epoch == options_.end_epoch();
  is_stopped_ = !done && stop_->is_reached(at_.progress.step);
  const bool is_due = done || at_.progress.step % options_.snapshot_every_steps == 0;
  if (!is_due && !is_stopped_) return {};
  auto saved = snapshots_->save(at_, ddp_->model(), *optimizer_);
  if (!saved || !is_stopped_) return saved;
  return report_stop();
}

/// Who says that all is saved has to know it.
Result<void> Training::report_stop() {
  bar_.clear();
  if (!is_first()) return {};
  const std::int64_t step = at_.progress.step;
  if (snapshots_->saved_step() != step) {
    return make_error(Errc::kIo, fmt::format("told to stop, and step {} is not saved", step));
  }
  tell(fmt::format("stopped epoch={} step={}\n", at_.progress.epoch, step));
  return {};
}

/// One update of the weights; returns this rank's mean loss before it.
double Training::train_step(const Batch& batch) {
  // ----------------------------------------------------------------------------------------------
  ddp_->zero_grad();
  const torch::Tensor output = ddp_->forward(batch.images);
  const torch::Tensor loss = ddp_->model().loss(output, batch.labels);
  loss.backward();  // averages the gradients over all ranks
  if (options_.flip_gradient_bit_at_step == at_.progress.step + 1) flip_gradient_bit();
  optimizer_->step();
  // ----------------------------------------------------------------------------------------------
  const auto mean_loss = loss.item<double>();
  at_.sums.add(mean_loss, count_right(output.detach(), batch.labels), batch.size());
  return mean_loss;
}

/// For the tests: the highest bit of the mantissa, so that the update cannot round it away.
void Training::flip_gradient_bit() {
  constexpr std::uint32_t kBit = 1U << 22U;
  if (!is_first()) return;
  auto* const first = ddp_->model().parameters().front().grad().mutable_data_ptr<float>();
  *first = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*first) ^ kBit);
}

/// `samples_before`: this rank's, when the epoch began or was resumed.
Result<void> Training::report_epoch(double samples_before, Duration took) {
  bar_.clear();
  const MetricSums sums = sum_over_ranks(*ddp_, at_.sums);
  const double trained = (at_.sums.samples - samples_before) * place_.world;
  const double samples_per_s = trained / to_seconds(took);
  if (!is_first()) return {};
  tell(epoch_line(at_.progress, sums, samples_per_s) + "\n");
  return metrics_.write(epoch_record(at_.progress, sums, samples_per_s, wall_s()));
}

Result<void> Training::finish() {
  const MetricSums sums = test();
  if (!is_first()) return {};
  const Progress last{.epoch = at_.progress.epoch - 1, .step = at_.progress.step};
  const std::string hash = weights_sha256(ddp_->model());
  auto written = metrics_.write(final_record(last, sums, hash, wall_s()));
  const auto told = answer(final_line(last, sums, hash) + "\n");
  if (!written || told) return written;
  return with_context("training is done, but its last line is lost", told.error());
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
    const auto loss = ddp_->model().loss(output, batch.labels).item<double>();
    sums.add(loss, count_right(output, batch.labels), batch.size());
  }
  return sum_over_ranks(*ddp_, sums);
}

Result<void> Training::announce() {
  if (!is_first()) return {};
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : ddp_->model().parameters()) {
    parameters += parameter.numel();
  }
  tell(fmt::format(
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
      TORCH_VERSION));
  if (at_.progress.step > 0) {
    tell(fmt::format("resumed epoch={} step={}\n", at_.progress.epoch, at_.progress.step));
  }
  return metrics_.write(start_record(at_.progress, place_.world, place_.attempt, wall_s()));
}

std::span<const std::int64_t> Training::batch_of(
    std::span<const std::int64_t> samples, std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index * options_.batch_size);
  const auto size = static_cast<std::size_t>(options_.batch_size);
  return samples.subspan(at, std::min(size, samples.size() - at));
}

}  // namespace

Result<TrainEnd> train(
    const TrainOptions& options, const WorkerPlace& place, const NoticeWatch* notice) {
  Training training(options, place, notice);
  return training.run();
}

}  // namespace ddprun
