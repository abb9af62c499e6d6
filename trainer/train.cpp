#include "trainer/train.hpp"

#include "base/check.hpp"
#include "base/standard_streams.hpp"
#include "base/time.hpp"
#include "trainer/batch_norm.hpp"
#include "trainer/burn_in.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/checkpoints_link.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/core/metrics.hpp"
#include "trainer/core/model_cost.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/data/loader.hpp"
#include "trainer/ddp.hpp"
#include "trainer/evaluator.hpp"
#include "trainer/fault_drill.hpp"
#include "trainer/feeder.hpp"
#include "trainer/memory_use.hpp"
#include "trainer/model.hpp"
#include "trainer/phase_range.hpp"
#include "trainer/process_group.hpp"
#include "trainer/profiler.hpp"
#include "trainer/progress_bar.hpp"
#include "trainer/record_file.hpp"
#include "trainer/replica_check.hpp"
#include "trainer/report_plan.hpp"
#include "trainer/run_report.hpp"
#include "trainer/sampler.hpp"
#include "trainer/snapshots.hpp"
#include "trainer/step_counter.hpp"
#include "trainer/stepper.hpp"
#include "trainer/stop_agreement.hpp"
#include "trainer/training_data.hpp"
#include "trainer/weights.hpp"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kGeneratorOffset[] = "device_generator_offset";
constexpr char kNoCompiler[] =
    "ddptrain: --compile has no effect: only Python compiles models (torch.compile); for shorter "
    "steps, give --amp bf16, and on GPUs --tf32 and --cudnn-benchmark\n";
constexpr double kTera = 1e12;
constexpr double kPercent = 100;
constexpr auto kLongestPause = std::chrono::minutes(30);  // of an evaluation or a snapshot
// Number of -v flags:
constexpr int kTellsPhases = 2;
constexpr int kTellsRanks = 3;

/// The peak memory of this process; 0 if not known.
std::int64_t rss_bytes() {
  const auto bytes = peak_rss_bytes();
  return bytes ? *bytes : 0;
}

double now_s() {
  return to_seconds(Clock::now().time_since_epoch());
}

/// The training of one rank, from the files to the last line.
class Training {
 public:
  Training(TrainOptions options, const WorkerPlace& place, Device& device, NoticeWatch* notice)
      : options_(std::move(options)),
        place_(place),
        device_(device),
        notice_(notice),
        drill_(options_.injections, place.rank, place.attempt) {
    options_.schedule.world = place.world;
  }

  Result<TrainEnd> run();

 private:
  Result<void> open();
  Result<void> check_enough_samples() const;
  std::unique_ptr<Loader> make_loader(const SampleSource& source) const;
  Result<void> build();
  std::vector<std::int64_t> share_of_test() const;
  Result<void> resume();
  void link() const;
  Result<void> announce();
  bool has_more_to_train() const;
  Result<void> train_epoch();
  Result<void> train_step(Feeder& feeder, std::int64_t batches_left);
  Result<std::optional<Batch>> next_batch(Feeder& feeder);
  void end_phase(double PhaseTimes::*phase);
  void stop_profiling();
  Result<void> bear(double loss);
  Result<void> check_weights();
  void flip_gradient_bit();
  Result<void> report_step(const MetricSums& sums, const Stepper::Update& update);
  void tell_burn_in(const MetricSums& sums, const StepDone::Rates& rates);
  Result<void> pass_burn_in();
  std::int64_t epoch_of_schedule() const;
  double rate_of_step(std::int64_t step) const;
  double eta_s(std::int64_t samples_left) const;
  Result<void> trace(std::span<const std::int64_t> samples);
  Result<void> keep_checkpoint();
  Result<void> save_or_stop();
  Result<void> save(bool is_last);
  Result<void> report_stop();
  Result<void> end_epoch(double samples_before);
  Result<void> evaluate();
  Result<void> finish();
  MetricSums sum_over_ranks(const MetricSums& sums);

  TrainedTensors trained() { return {.model = ddp_->model(), .optimizer = *optimizer_}; }
  /// The generator of dropout. Its seed is --seed, so that its state is a number.
  at::Generator device_generator() const {
    return at::globalContext().defaultGenerator(device_.place());
  }
  std::int64_t batches_per_epoch() const;
  /// In this run, including the current one.
  std::int64_t epochs_done() const { return at_.progress.epoch + 1 - options_.first_epoch; }
  std::int64_t step_of_epoch() const { return batches_for(at_.batches, options_.accumulate); }
  std::int64_t steps_of_epoch() const {
    return batches_for(batches_of_epoch_, options_.accumulate);
  }

  TrainOptions options_;
  const WorkerPlace& place_;
  Device& device_;
  NoticeWatch* notice_;
  FaultDrill drill_;
  TrainingData data_;
  std::unique_ptr<Loader> train_loader_;
  std::unique_ptr<Loader> test_loader_;
  std::unique_ptr<RunReport> report_;
  RecordFile trace_;
  ProgressBar bar_{false, BarStyle::kPlain};  // until the report sets the style

  ProcessGroup group_;
  std::unique_ptr<Ddp> ddp_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<StopAgreement> stop_;
  std::unique_ptr<BurnIn> burn_in_;     // null unless this is a burn-in
  std::unique_ptr<Profiler> profiler_;  // null if nothing is profiled
  int overflows_ = 0;                   // passes in a row with a loss of NaN or infinity
  bool is_stopped_ = false;
  bool is_best_ = false;                       // at this moment, after an epoch
  std::optional<Evaluation> last_evaluation_;  // with the weights of this moment
  TrainPosition at_;
  StepCounter steps_ = StepCounter::open();
  // Counted, because batches at another world size had another number of samples.
  std::int64_t batches_of_epoch_ = 0;

  // Only for reports.
  double run_began_s_ = now_s();
  PhaseSplit phases_{run_began_s_};
  PhaseTimes steps_took_;
  Throughput throughput_{run_began_s_};
  double epoch_began_s_ = 0;
  double last_rate_ = 0;
  double last_loss_ = 0;      // of the previous epoch
  double forward_flops_ = 0;  // of one sample
};

Result<TrainEnd> Training::run() {
  auto done = open();
  if (done) done = build();
  if (done && !options_.evaluated) done = resume();
  if (done) done = announce();
  phases_.skip(now_s());  // setup time belongs to no step
  throughput_ = Throughput(now_s());
  if (done && has_more_to_train() && at_.progress.step == 0) done = keep_checkpoint();
  while (done && has_more_to_train()) {
    done = train_epoch();
  }
  if (done) stop_profiling();
  if (done) done = burn_in_ ? pass_burn_in() : is_stopped_ ? Result<void>() : finish();
  if (!done) return done.error();
  device_.leave();
  return is_stopped_ && !burn_in_ ? TrainEnd::kSaved : TrainEnd::kDone;
}

bool Training::has_more_to_train() const {
  const bool is_after = !burn_in_ && at_.progress.epoch >= options_.end_epoch();
  return !options_.evaluated && !is_stopped_ && !is_after;
}

Result<void> Training::open() {
  auto data = open_training_data(options_.data, options_.model.image, options_.seed);
  if (!data) return data.error();
  data_ = *std::move(data);
  options_.train_samples = data_.train.size();
  if (options_.has_classes_of_data) options_.model.classes = data_.classes;
  if (options_.model.classes < data_.classes) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--dataset {} has {} classes, but the model has {}; see --classes",
            name_of(options_.data.kind),
            data_.classes,
            options_.model.classes));
  }
  auto enough = check_enough_samples();
  if (!enough) return enough;
  name_event_files(options_);
  train_loader_ = make_loader(*data_.train.source);
  test_loader_ = make_loader(*data_.test.source);
  auto report = open_report(options_, place_);
  if (!report) return report.error();
  report_ = std::make_unique<RunReport>(*std::move(report));
  bar_ = ProgressBar(place_.rank == 0, report_->bar_style());
  if (const auto& traces = options_.profile.directory) {
    auto profiler = Profiler::open(
        *traces,
        options_.profile.schedule,
        {.rank = place_.rank, .world = place_.world, .device = &device_});
    if (!profiler) return with_context("--profile", profiler.error());
    profiler_ = *std::move(profiler);
  }
  if (!options_.report.sample_trace) return {};
  auto opened = RecordFile::open(*options_.report.sample_trace);
  if (!opened) return with_context("--sample-trace", opened.error());
  trace_ = *std::move(opened);
  return {};
}

/// An empty set has no mean or accuracy.
Result<void> Training::check_enough_samples() const {
  const bool trains = !options_.evaluated;
  if (trains && batches_per_epoch() == 0) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} training samples are too few for {} ranks with --drop-last; leave --drop-last out, "
            "or "
            "train with fewer ranks",
            data_.train.size(),
            place_.world));
  }
  if (data_.test.size() > 0) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "there are no test samples; {}",
          options_.data.validation_share > 0 ? "give a larger --validation-share"
                                             : "see --data-dir"));
}

/// One for the whole run; its threads start with the first epoch.
std::unique_ptr<Loader> Training::make_loader(const SampleSource& source) const {
  const PumpPlan plan{
      .batch_size = options_.batch_size,
      .workers = data_workers(options_.data, data_, place_.local_world),
      .batches_ahead = options_.data.prefetch};
  return std::make_unique<Loader>(source, plan, &device_);
}

Result<void> Training::build() {
  at::set_num_threads(options_.num_threads);  // P1
  auto joined = make_process_group(place_, options_.peer_timeout);
  if (!joined) return joined.error();
  group_ = *std::move(joined);
  if (notice_ != nullptr) notice_->heed();
  auto same = check_same_flags(options_, group_);
  if (!same) return same;
  device_.join(*group_, options_.peer_timeout);  // all ranks have the same kind

  torch::manual_seed(options_.seed);  // P3: nothing draws in between
  std::shared_ptr<Model> model = make_model(options_.model);
  forward_flops_ = static_cast<double>(forward_flops(options_.model));
  if (place_.rank == 0 && options_.compile) write_stderr(kNoCompiler);
  if (options_.pretrained) {
    auto begun = begin_with(*model, *options_.pretrained);
    if (!begun) return with_context("--pretrained", begun.error());
    if (place_.rank == 0 && !begun->empty()) write_stderr(fmt::format("ddptrain: {}\n", *begun));
  }
  if (options_.evaluated) {
    auto const taken = take_weights(*model, *options_.evaluated);
    if (!taken) return with_context("--evaluate", taken.error());
  }
  if (!device_.place().is_cpu()) model->to(device_.place());  // drawn on the CPU, as in Python
  if (options_.synchronises_batch_norm) {
    static_cast<void>(convert_sync_batch_norm(*model, group_));
  }
  ddp_ = std::make_unique<Ddp>(std::move(model), group_, options_.ddp);
  optimizer_ = make_optimizer(options_.optimizer, ddp_->model().named_parameters());
  stepper_ = std::make_unique<Stepper>(options_, device_.place(), *ddp_, *optimizer_);
  evaluator_ =
      std::make_unique<Evaluator>(share_of_test(), *test_loader_, device_, *ddp_, *stepper_);
  stop_ = std::make_unique<StopAgreement>(notice_, group_);
  if (options_.burn_in_hours) burn_in_ = std::make_unique<BurnIn>(*options_.burn_in_hours, group_);
  return {};
}

/// This rank's share: no sample counts twice.
std::vector<std::int64_t> Training::share_of_test() const {
  std::vector<std::int64_t> mine;
  for (std::int64_t i = place_.rank; i < data_.test.size(); i += place_.world) {
    mine.push_back(data_.test.samples[static_cast<std::size_t>(i)]);
  }
  return mine;
}

/// Resumes from a snapshot, if there is one.
Result<void> Training::resume() {
  std::vector<std::string> extras = Stepper::state_names(options_);
  extras.emplace_back(kSamplesOfRun);
  if (!device_.place().is_cpu()) extras.emplace_back(kGeneratorOffset);
  snapshots_ = std::make_unique<Snapshots>(options_, place_, group_, std::move(extras));
  checkpoints_ = std::make_unique<Checkpoints>(options_, place_);
  const auto resumed = snapshots_->resume(trained());
  if (!resumed) return resumed.error();
  auto opened = checkpoints_->open();
  if (!opened) return opened;
  link();
  at_.progress.epoch = options_.first_epoch;
  if (!*resumed) return {};
  at_ = **resumed;
  if (at_.progress.step == 0) at_.progress.epoch = options_.first_epoch;  // only weights
  // A Python file may have no loss scale; then it starts at its default.
  const auto of_scaler = Stepper::state_names(options_);
  if (std::ranges::any_of(of_scaler, [this](auto& name) { return at_.extras.contains(name); })) {
    auto const loaded = stepper_->load(at_.extras);
    if (!loaded) return with_context("the snapshot's loss scale", loaded.error());
  }
  if (!device_.place().is_cpu()) {
    const auto offset = static_cast<std::uint64_t>(at_.extras[kGeneratorOffset]);
    device_generator().set_offset(offset);
  }
  if (at_.progress.step == 0) return {};
  // Gradients arrive in the order of the graph for any images. A real sample might draw from the
  // generator that has just been restored. With only one image, batch normalisation over one pixel
  // would have no deviation, and fails.
  const SampleShape shape = data_.train.source->shape();
  ddp_->warm_up_buckets(
      torch::zeros({2, shape.channels, shape.height, shape.width}, device_.place()));
  return {};
}

/// Beside the script, for convenience; nothing depends on it.
void Training::link() const {
  if (!options_.links_checkpoints || place_.rank != 0) return;
  const auto& style = options_.checkpoints.style;
  const auto linked = link_checkpoints(
      style ? options_.checkpoints.directory : options_.snapshots.directory.value_or(""));
  if (!linked)
    write_stderr(fmt::format("ddptrain: --link-checkpoints: {}\n", linked.error().detail));
}

void Training::stop_profiling() {
  if (profiler_) profiler_->finish();
  profiler_.reset();
}

Result<void> Training::train_epoch() {
  last_evaluation_.reset();
  epoch_began_s_ = now_s();
  const double samples_before = at_.sums.samples;
  if (epochs_done() > options_.profile.epochs) stop_profiling();  // resumed after them
  ddp_->model().train();
  if (at_.consumed == 0) draw_as_data_loader();
  std::vector<std::int64_t> samples = samples_of_rank(
      epoch_order(data_.train.size(), options_.sampler_seed, at_.progress.epoch),
      {.rank = place_.rank, .world = place_.world},
      options_.data.drops_tail ? Tail::kDrop : Tail::kPad,
      at_.consumed);
  for (std::int64_t& sample : samples) {
    sample = data_.train.samples[static_cast<std::size_t>(sample)];
  }
  std::int64_t left = batches_for(std::ssize(samples), options_.batch_size);
  batches_of_epoch_ = at_.batches + left;
  if (left == 0) last_rate_ = rate_of_step(step_of_epoch() - 1);  // only the evaluation is left
  Feeder feeder(
      *train_loader_,
      device_,
      options_.data.draws_as_python ? Feeder::Order::kWhenUsed : Feeder::Order::kEarly);
  auto done = train_loader_->start(std::move(samples), at_.progress.epoch);
  if (done) done = report_->record(EpochBegan{.at = at_.progress});

  const bool is_captured = options_.profile.captured_epoch == at_.progress.epoch;
  if (is_captured) device_.begin_capture();
  for (; done && !is_stopped_ && left > 0; left -= std::min(left, options_.accumulate)) {
    if (profiler_) profiler_->begin_step();
    done = train_step(feeder, left);
    if (profiler_) profiler_->end_step();
    phases_.end(&PhaseTimes::other_s, now_s());  // not the loader's time, if a trace was written
    if (done && left > options_.accumulate) done = save_or_stop();
  }
  if (is_captured) device_.end_capture();
  if (!done || is_stopped_) return done;
  if (epochs_done() >= options_.profile.epochs) stop_profiling();
  done = end_epoch(samples_before);
  phases_.skip(now_s());
  if (!done || is_stopped_) return done;
  const Progress next{.epoch = at_.progress.epoch + 1, .step = at_.progress.step};
  auto extras = std::move(at_.extras);
  at_ = TrainPosition();
  at_.progress = next;
  at_.extras = std::move(extras);
  done = keep_checkpoint();
  if (done) done = save_or_stop();
  is_best_ = false;
  return done;
}

/// One update of the weights, from all its batches.
Result<void> Training::train_step(Feeder& feeder, std::int64_t batches_left) {
  const std::int64_t step = at_.progress.step + 1;
  const std::int64_t passes = std::min(options_.accumulate, batches_left);
  last_rate_ = rate_of_step(step_of_epoch());
  drill_.before(step);
  const PhaseRange range(kTrainRange);
  MetricSums sums;
  // ----------------------------------------------------------------------------------------------
  stepper_->begin();
  for (std::int64_t pass = 1; pass <= passes; ++pass) {
    const auto next = next_batch(feeder);
    if (!next) return next.error();
    const auto& batch = *next;
    DDPRUN_CHECK(batch.has_value());
    auto done = trace(batch->samples);
    if (!done) return done;
    auto [loss, right] =
        stepper_->pass(*batch, pass == passes ? Gradients::kReduce : Gradients::kAccumulate);
    if (drill_.spoils_loss(step)) loss = std::nan("");
    if (std::isfinite(loss)) {
      overflows_ = 0;
      sums.add(loss, right, batch->size());
    } else {
      done = bear(loss);
      if (!done) return done;
    }
    at_.consumed += batch->size() * place_.world;
    end_phase(&PhaseTimes::compute_s);
  }
  if (options_.flip_gradient_bit_at_step == step) flip_gradient_bit();
  snapshots_->wait_until_copied();
  end_phase(&PhaseTimes::snapshot_s);
  const Stepper::Update update = stepper_->update(last_rate_);
  // ----------------------------------------------------------------------------------------------
  end_phase(&PhaseTimes::optimizer_s);
  ++at_.progress.step;
  steps_.count(at_.progress.step);
  at_.batches += passes;
  at_.sums.add(sums);
  at_.extras[kSamplesOfRun] += sums.samples * place_.world;
  auto done = check_weights();
  const bool has_overflowed = sums.samples == 0;  // and there is no loss to report
  if (done && !has_overflowed) done = report_step(sums, update);
  return done;
}

Result<std::optional<Batch>> Training::next_batch(Feeder& feeder) {
  {
    const PhaseRange range(kDataRange);
    const auto loaded = feeder.load();
    if (!loaded) return loaded.error();
    end_phase(&PhaseTimes::data_s);
  }
  const PhaseRange range(kCopyRange);
  auto batch = feeder.take();
  end_phase(&PhaseTimes::copy_s);
  return batch;
}

/// If phases are reported, each ends when the device is done; otherwise nothing waits for it.
void Training::end_phase(double PhaseTimes::*phase) {
  if (options_.report.verbosity >= kTellsPhases) device_.synchronise();
  phases_.end(phase, now_s());
}

/// A loss of NaN stays NaN: it is better to end here, with the last snapshot still good, than to
/// train on noise. In fp16 a pass may overflow: all ranks skip its step, since the gradients are
/// not finite either, and the scale of the next step is halved.
Result<void> Training::bear(double loss) {
  constexpr int kOverflowsMax = 50;  // the scale is used up by then
  const bool may_overflow = options_.precision == Precision::kFloat16;
  if (may_overflow && ++overflows_ <= kOverflowsMax) return {};
  return make_error(
      Errc::kBadNumbers,
      fmt::format(
          "the loss is {} in step {} of epoch {}; try a smaller --learning-rate or --clip-norm, or "
          "check the samples of that step (--sample-trace){}",
          loss,
          at_.progress.step + 1,
          at_.progress.epoch,
          options_.snapshots.directory ? "; the last snapshot is from before" : ""));
}

Result<void> Training::check_weights() {
  const std::int64_t every = options_.check_replicas_every_steps;
  if (every == 0 || at_.progress.step % every != 0) return {};
  auto same = check_replicas(ddp_->model(), group_);
  if (same) return same;
  return with_context(fmt::format("after step {}", at_.progress.step), same.error());
}

/// For the tests: the highest bit of the mantissa, so that the update cannot round it away.
void Training::flip_gradient_bit() {
  constexpr std::uint32_t kBit = 1U << 22U;
  if (place_.rank != 0) return;
  torch::Tensor gradient = ddp_->model().parameters().front().grad();
  const torch::Tensor host = gradient.cpu();  // the tensor itself if it is on the CPU
  auto* const first = host.mutable_data_ptr<float>();
  *first = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*first) ^ kBit);
  if (!gradient.is_cpu()) gradient.copy_(host);
}

Result<void> Training::report_step(const MetricSums& sums, const Stepper::Update& update) {
  const std::int64_t steps = steps_of_epoch();
  const auto samples_of_all = static_cast<std::int64_t>(sums.samples) * place_.world;
  throughput_.add(samples_of_all, now_s());
  end_phase(&PhaseTimes::other_s);
  const PhaseTimes took = phases_.take();
  steps_took_.add(took);
  const std::int64_t per_epoch = data_.train.size();
  bar_.show(
      {.epoch = at_.progress.epoch,
       .count = epochs_done(),
       .epochs = options_.epochs,
       .steps_done = step_of_epoch(),
       .steps = steps,
       .samples_done =
           std::min(at_.consumed, per_epoch),  // some samples occur twice if ranks are padded
       .samples = per_epoch,
       .seconds = now_s() - epoch_began_s_,
       .loss = sums.mean_loss(),
       .accuracy = sums.accuracy_percent() / kPercent});
  StepDone::Rates rates;
  rates.samples_per_s = throughput_.windowed();
  const double of_rank = rates.samples_per_s / place_.world;
  const double flops = training_flops(forward_flops_, of_rank);
  if (flops > 0) rates.tflops = flops / kTera;
  if (flops > 0 && options_.peak_tflops) {
    rates.mfu = model_flops_utilisation(forward_flops_, of_rank, *options_.peak_tflops * kTera);
  }
  const std::int64_t epochs_left = options_.end_epoch() - at_.progress.epoch;
  rates.eta_s = eta_s(epochs_left * per_epoch - at_.consumed);
  const auto vit = vit_shape(options_.model.kind);
  if (vit) {
    const std::int64_t tokens = vit->tokens(options_.model.image.side);
    rates.tokens_per_s = rates.samples_per_s * static_cast<double>(tokens);
  }
  if (burn_in_) tell_burn_in(sums, rates);
  return report_->record(StepDone{
      .at = at_.progress,
      .batch = step_of_epoch(),
      .batches = steps,
      .sums = sums,
      .samples_of_epoch = at_.consumed,
      .samples_per_epoch = per_epoch,
      .samples_of_run = static_cast<std::int64_t>(at_.extras[kSamplesOfRun]),
      .learning_rate = last_rate_,
      .grad_norm = update.gradient_norm,
      .rates = rates,
      .phases = took,
      .peak_rss_bytes = options_.report.verbosity >= kTellsRanks ? rss_bytes() : 0});
}

void Training::tell_burn_in(const MetricSums& sums, const StepDone::Rates& rates) {
  if (!is_burn_in_told(at_.progress.step)) return;
  BurnInMoment moment;
  moment.iteration = at_.progress.step;
  moment.loss = sums.mean_loss();
  moment.samples_per_s = rates.samples_per_s;
  moment.tokens_per_s = rates.tokens_per_s;
  moment.peak_rss_bytes = rss_bytes();
  moment.gpu = device_.figures();
  bar_.clear();
  burn_in_->record(moment);
}

Result<void> Training::pass_burn_in() {
  if (place_.rank != 0) return {};
  auto printed = write_stdout(fmt::format("{}\n", kBurnInPassed));
  if (printed) return printed;
  return with_context("the burn-in is passed, but its last line was not printed", printed.error());
}

/// A burn-in repeats its epochs, and so its schedule.
std::int64_t Training::epoch_of_schedule() const {
  const std::int64_t epoch = at_.progress.epoch;
  if (!burn_in_) return epoch;
  return options_.first_epoch + (epoch - options_.first_epoch) % options_.epochs;
}

/// `step` within this epoch, from 0.
double Training::rate_of_step(std::int64_t step) const {
  const TrainMoment moment = {
      .epoch = epoch_of_schedule(), .batch = step, .batches_per_epoch = steps_of_epoch()};
  return learning_rate(options_.schedule, moment);
}

double Training::eta_s(std::int64_t samples_left) const {
  return burn_in_ ? burn_in_->remaining_s() : throughput_.eta_s(samples_left).value_or(0);
}

/// Before the snapshot of this step, so that every step in a snapshot is in the trace.
Result<void> Training::trace(std::span<const std::int64_t> samples) {
  if (!options_.report.sample_trace) return {};
  const Progress at{.epoch = at_.progress.epoch, .step = at_.progress.step + 1};
  return trace_.write(sample_record(at, place_, samples));
}

/// Between two epochs, and before the first.
Result<void> Training::keep_checkpoint() {
  if (!options_.checkpoints.style) return {};
  const std::int64_t next = at_.progress.epoch;
  const TrainMoment moment = {
      .epoch = next,
      .batch = 0,
      .batches_per_epoch = batches_for(batches_per_epoch(), options_.accumulate)};
  const auto& best = snapshots_->best();
  const auto path = checkpoints_->save(
      at_,
      trained(),
      {.loss = last_loss_,
       .learning_rate = learning_rate(options_.schedule, moment),
       .is_best = is_best_,
       .best_accuracy = best && best->metric == BestMetric::kAccuracy ? best->value : 0,
       .samples = static_cast<std::int64_t>(at_.extras[kSamplesOfRun]),
       .is_last = next == options_.end_epoch(),
       .is_first = next == options_.first_epoch});
  if (!path) return {};
  phases_.end(&PhaseTimes::snapshot_s, now_s());
  return report_->record(SnapshotSaved{
      .at = {.epoch = std::max(next - 1, options_.first_epoch), .step = at_.progress.step},
      .path = *path});
}

/// Saves at its step interval, and when everything is done, so that a job that is started again
/// finds it finished. After a notice it saves once more and stops.
Result<void> Training::save_or_stop() {
  if (burn_in_) {
    is_stopped_ = burn_in_->is_over(at_.progress.step);
    return {};
  }
  const bool done = at_.progress.epoch == options_.end_epoch();
  is_stopped_ = !done && stop_->is_reached(at_.progress.step);
  const bool is_due = done || is_best_ || at_.progress.step % options_.snapshots.every_steps == 0;
  if (!is_due && !is_stopped_) return {};
  return save(done || is_stopped_);
}

/// With `is_last`, the snapshot of this process is on disk when this returns.
Result<void> Training::save(bool is_last) {
  for (const auto& [name, value] : stepper_->state()) {
    at_.extras[name] = value;
  }
  if (!device_.place().is_cpu()) {
    at_.extras[kGeneratorOffset] = static_cast<double>(device_generator().get_offset());
  }
  const auto pause = steps_.busy("saving", kLongestPause);
  if (drill_.fills_disk(at_.progress.step)) snapshots_->fill_disk();
  auto saved = snapshots_->save(at_, trained());
  if (saved && is_last) saved = snapshots_->finish();
  end_phase(&PhaseTimes::snapshot_s);
  if (!saved || !is_stopped_) return saved;
  return report_stop();
}

/// Reports that everything is saved only after checking it.
Result<void> Training::report_stop() {
  bar_.clear();
  const std::int64_t step = at_.progress.step;
  if (place_.rank == 0 && snapshots_->saved_step() != step) {
    return make_error(Errc::kIo, fmt::format("told to stop, but step {} is not saved", step));
  }
  return report_->record(RunStopped{.at = at_.progress});
}

/// `samples_before`: this rank's samples when the epoch began or was resumed.
Result<void> Training::end_epoch(double samples_before) {
  bar_.clear();
  const double trained_s = now_s();
  EpochTrained trained{
      .at = at_.progress,
      .sums = sum_over_ranks(at_.sums),
      .seconds = trained_s - epoch_began_s_,
      .samples_per_s =
          (at_.sums.samples - samples_before) * place_.world / (trained_s - epoch_began_s_),
      .learning_rate = last_rate_,
      .samples_of_run = static_cast<std::int64_t>(at_.extras[kSamplesOfRun]),
      .elapsed_s = trained_s - run_began_s_,
      .eta_s = 0};
  const std::int64_t epochs_left = options_.end_epoch() - at_.progress.epoch - 1;
  trained.eta_s = eta_s(epochs_left * data_.train.size());
  auto recorded = report_->record(trained);
  const std::int64_t every = options_.evaluate_every_epochs;
  last_loss_ = trained.sums.mean_loss();
  // The choice of the best needs a measurement of the last epoch, too.
  const bool is_last = options_.snapshots.keeps_best && epochs_left == 0;
  if (!recorded || every == 0 || (at_.progress.epoch % every != 0 && !is_last)) return recorded;
  auto done = evaluate();
  if (!done) return done;
  // A snapshot of the end of this epoch, so that a resumed run evaluates it first.
  if (!last_evaluation_) return save(/*is_last=*/true);
  const auto& evaluation = *last_evaluation_;
  if (options_.snapshots.keeps_best) {
    const auto best = snapshots_->is_best(evaluation.sums, at_.progress.epoch);
    if (!best) return best.error();
    is_best_ = *best;
  }
  return report_->record(EpochValidated{
      .trained = trained,
      .sums = evaluation.sums,
      .correct_top5 = evaluation.correct_top5,
      .batch_loss_sum = evaluation.batch_loss_sum,
      .seconds = evaluation.seconds,
      .epoch_seconds = now_s() - epoch_began_s_});
}

/// Sets last_evaluation_, or is_stopped_ if a notice came meanwhile.
Result<void> Training::evaluate() {
  const auto pause = steps_.busy("evaluating", kLongestPause);
  const auto evaluated = evaluator_->run(*stop_);
  if (!evaluated) return evaluated.error();
  last_evaluation_ = *evaluated;
  is_stopped_ = !last_evaluation_;
  return {};
}

Result<void> Training::finish() {
  if (!last_evaluation_) {
    auto done = evaluate();
    if (!done) return done;
  }
  if (!last_evaluation_) return report_stop();  // the last snapshot is already on disk
  const auto& evaluation = *last_evaluation_;
  const std::int64_t back = options_.evaluated ? 0 : 1;
  const Progress last{.epoch = at_.progress.epoch - back, .step = at_.progress.step};
  const auto figures = device_.figures();
  std::optional<LoaderCeiling> ceiling;
  if (options_.model.kind == ModelKind::kDummy && throughput_.samples() > 0) {
    ceiling = loader_ceiling(throughput_.samples(), steps_took_);
  }
  return report_->record(RunEnded{
      .at = last,
      .sums = evaluation.sums,
      .weights_sha256 = place_.rank == 0 ? weights_sha256(ddp_->model()) : "",
      .seconds = now_s() - run_began_s_,
      .samples = throughput_.samples(),
      .samples_per_s = throughput_.whole(),
      .peak_tensor_bytes = figures ? figures->max_allocated_bytes : 0,
      .peak_rss_bytes = rss_bytes(),
      .is_evaluation = options_.evaluated.has_value(),
      .ceiling = ceiling});
}

/// `sums` over all ranks (P18).
MetricSums Training::sum_over_ranks(const MetricSums& sums) {
  torch::Tensor packed = torch::tensor({sums.loss, sums.correct, sums.samples}, torch::kFloat64);
  ddp_->all_reduce(packed);
  const auto* const sum = packed.const_data_ptr<double>();
  return {.loss = sum[0], .correct = sum[1], .samples = sum[2]};
}

Result<void> Training::announce() {
  RunBegan began = run_began(options_, place_);
  for (const torch::Tensor& parameter : ddp_->model().parameters()) {
    began.parameters += parameter.numel();
    began.trainable_parameters += parameter.requires_grad() ? parameter.numel() : 0;
  }
  began.at = at_.progress;
  began.train_samples = data_.train.size();
  began.test_samples = data_.test.size();
  began.batches_per_epoch = batches_per_epoch();
  began.kernels = at::get_cpu_capability();
  began.torch = TORCH_VERSION;
  began.backends.nccl = device_.place().is_cuda();
  auto recorded = report_->record(began);
  if (!recorded || at_.progress.step == 0) return recorded;
  return report_->record(RunResumed{
      .at = at_.progress, .samples = static_cast<std::int64_t>(at_.extras[kSamplesOfRun])});
}

/// Of each rank.
std::int64_t Training::batches_per_epoch() const {
  const std::int64_t all = data_.train.size();
  const std::int64_t mine =
      options_.data.drops_tail ? all / place_.world : batches_for(all, place_.world);
  return batches_for(mine, options_.batch_size);
}

}  // namespace

Result<TrainEnd> train(
    const TrainOptions& options, const WorkerPlace& place, Device& device, NoticeWatch* notice) {
  Training training(options, place, device, notice);
  return training.run();
}

}  // namespace ddprun
