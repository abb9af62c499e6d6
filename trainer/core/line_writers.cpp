#include "trainer/core/line_writers.hpp"

#include "trainer/core/python_text.hpp"

#include <fmt/format.h>

namespace ddprun {
namespace {

/// 0 to 1.
double accuracy(const MetricSums& sums) {
  return sums.correct / sums.samples;
}

std::string python_bool(bool value) {
  return value ? "True" : "False";
}

std::string minutes(double seconds) {
  constexpr double kMinute = 60;
  return python_fixed(seconds / kMinute, 1);
}

std::string phases_text(const PhaseTimes& took) {
  return fmt::format(
      "data_s={:.6f} copy_s={:.6f} compute_s={:.6f} optimizer_s={:.6f} snapshot_s={:.6f} "
      "other_s={:.6f} total_s={:.6f}",
      took.data_s,
      took.copy_s,
      took.compute_s,
      took.optimizer_s,
      took.snapshot_s,
      took.other_s,
      took.total_s());
}

}  // namespace

std::string step_line(const StepDone& step) {
  std::string line = fmt::format(
      "step epoch={} step={} batch={}/{} loss={} learning_rate={} samples_per_s={:.1f}",
      step.at.epoch,
      step.at.step,
      step.batch,
      step.batches,
      python_fixed(step.sums.mean_loss(), 6),
      step.learning_rate,
      step.rates.samples_per_s);
  if (step.rates.eta_s > 0) line += fmt::format(" eta={}", human_seconds(step.rates.eta_s));
  if (step.grad_norm) line += " grad_norm=" + python_fixed(*step.grad_norm, 4);
  if (step.rates.tokens_per_s)
    line += fmt::format(" tokens_per_s={:.0f}", *step.rates.tokens_per_s);
  if (step.rates.tflops) line += fmt::format(" tflops={:.3f}", *step.rates.tflops);
  if (step.rates.mfu) line += " mfu=" + python_percent(*step.rates.mfu, 2);
  return line;
}

std::string phase_line(const StepDone& step) {
  return fmt::format(
      "phases epoch={} step={} {}", step.at.epoch, step.at.step, phases_text(step.phases));
}

std::string rank_line(const StepDone& step, int rank) {
  return fmt::format(
      "rank={} epoch={} step={} loss={} {} peak_rss_bytes={}",
      rank,
      step.at.epoch,
      step.at.step,
      python_fixed(step.sums.mean_loss(), 6),
      phases_text(step.phases),
      step.peak_rss_bytes);
}

// plain -------------------------------------------------------------------------------------------

Lines PlainLines::operator()(const RunBegan& run) const {
  if (!is_first()) return {};
  return {fmt::format(
      "ddptrain dataset={} model={} parameters={} train_samples={} test_samples={} world={} "
      "batch_size={} threads={} kernels={} torch={}{}",
      run.dataset,
      run.model,
      run.parameters,
      run.train_samples,
      run.test_samples,
      run.world,
      run.batch_size,
      run.threads,
      run.kernels,
      run.torch,
      run.backends.nccl ? " device=cuda" : "")};
}

Lines PlainLines::operator()(const RunResumed& run) const {
  if (!is_first()) return {};
  return {fmt::format("resumed epoch={} step={}", run.at.epoch, run.at.step)};
}

Lines PlainLines::operator()(const EpochTrained& epoch) const {
  if (!is_first()) return {};
  return {epoch_line(epoch.at, epoch.sums, epoch.samples_per_s)};
}

Lines PlainLines::operator()(const EpochValidated& epoch) const {
  if (!is_first()) return {};
  std::string line = fmt::format(
      "validation epoch={} step={} loss={} accuracy={}",
      epoch.trained.at.epoch,
      epoch.trained.at.step,
      python_fixed(epoch.sums.mean_loss(), 6),
      python_fixed(epoch.sums.accuracy_percent(), 4));
  if (epoch.correct_top5) {
    line += " top5=" + python_fixed(100 * *epoch.correct_top5 / epoch.sums.samples, 4);
  }
  return {line + fmt::format(" samples_per_s={:.0f}", epoch.samples_per_s())};
}

Lines PlainLines::operator()(const RunStopped& run) const {
  if (!is_first()) return {};
  return {fmt::format("stopped epoch={} step={}", run.at.epoch, run.at.step)};
}

Lines PlainLines::operator()(const RunEnded& run) const {
  if (!is_first()) return {};
  Lines lines;
  if (run.ceiling) {
    lines.push_back(fmt::format(
        "ceiling loader_samples_per_s={:.0f} training_samples_per_s={:.0f}",
        run.ceiling->loader_samples_per_s,
        run.ceiling->training_samples_per_s));
  }
  lines.push_back(final_line(run.at, run.sums, run.weights_sha256));
  return lines;
}

// mila: ImageNet ----------------------------------------------------------------------------------

Lines MilaImagenetLines::operator()(const RunBegan& run) const {
  return {fmt::format("Using random seed: {}", run.seed)};
}

Lines MilaImagenetLines::operator()(const RunResumed& run) const {
  if (!is_first()) return {};
  return {
      prefix() + fmt::format(
                     "Resuming training from epoch {} (step {}, {} total samples)",
                     run.at.epoch,
                     run.at.step,
                     run.samples)};
}

Lines MilaImagenetLines::operator()(const StepDone& step) const {
  return {prefix() + step_line(step)};
}

Lines MilaImagenetLines::operator()(const EpochValidated& epoch) const {
  if (!is_first()) return {};
  return {fmt::format(
      "Epoch {}: Val loss: {} accuracy: {} samples/sec: {}",
      epoch.trained.at.epoch,
      python_fixed(epoch.sums.mean_loss(), 3),
      python_percent(accuracy(epoch.sums), 2),
      python_fixed(epoch.samples_per_s(), 1))};
}

/// Unlike ours, its rate includes the start-up time.
Lines MilaImagenetLines::operator()(const RunEnded& run) const {
  const double rate = run.seconds > 0 ? static_cast<double>(run.samples) / run.seconds : 0;
  return {fmt::format(
      "Done in {} seconds, with {} images/second",
      python_fixed(run.seconds, 1),
      python_fixed(rate, 1))};
}

// mila: CIFAR-10 ----------------------------------------------------------------------------------

std::string MilaCifarLines::prefix() const {
  return fmt::format("[{}/{}] __main__ - ", context.rank, context.world);
}

Lines MilaCifarLines::operator()(const RunBegan& run) const {
  Lines lines = {
      "PyTorch Distributed available.",
      "  Backends:",
      "    Gloo: " + python_bool(run.backends.gloo),
      "    NCCL: " + python_bool(run.backends.nccl),
      "    MPI:  " + python_bool(run.backends.mpi),
      prefix() + fmt::format("World size: {}, global rank: {}", run.world, context.rank)};
  if (is_first()) {
    lines.push_back(prefix() + fmt::format("Effective batch size: {}", run.batch_size * run.world));
  }
  return lines;
}

/// Its "Val loss" is a sum of the batches' means; existing logs to compare with have it, too.
Lines MilaCifarLines::operator()(const EpochValidated& epoch) const {
  if (!is_first()) return {};
  return {
      prefix() + fmt::format(
                     "Epoch {}: Val loss: {} accuracy: {}",
                     epoch.trained.at.epoch,
                     python_fixed(epoch.batch_loss_sum, 3),
                     python_percent(accuracy(epoch.sums), 2))};
}

Lines MilaCifarLines::operator()(const RunStopped& run) const {
  return {fmt::format("Job received a {} signal!", run.signal)};
}

Lines MilaCifarLines::operator()(const RunEnded& /*run*/) const {
  return {"Done!"};
}

// crusoe: MNIST -----------------------------------------------------------------------------------

Lines CrusoeMnistLines::operator()(const RunBegan& run) const {
  if (!is_first()) return {};
  return {
      fmt::format("Starting distributed training on {} GPUs", run.world),
      "Arguments: " + python_namespace(run.arguments)};
}

Lines CrusoeMnistLines::operator()(const StepDone& step) const {
  return {fmt::format(
      "Epoch {} [{}/{}] Loss: {}",
      step.at.epoch,
      step.samples_of_epoch,
      step.samples_per_epoch,
      python_fixed(step.sums.mean_loss(), 6))};
}

Lines CrusoeMnistLines::operator()(const EpochTrained& epoch) const {
  if (!is_first()) return {};
  return {
      fmt::format(
          "Epoch {} - Avg Loss: {}, Accuracy: {}%",
          epoch.at.epoch,
          python_fixed(epoch.sums.mean_loss(), 6),
          python_fixed(epoch.sums.accuracy_percent(), 2)),
      fmt::format("Epoch {} completed in {}s", epoch.at.epoch, python_fixed(epoch.seconds, 2))};
}

Lines CrusoeMnistLines::operator()(const SnapshotSaved& snapshot) const {
  if (!is_first()) return {};
  return {"Checkpoint saved to " + snapshot.path};
}

Lines CrusoeMnistLines::operator()(const RunEnded& /*run*/) const {
  if (!is_first()) return {};
  return {"Training completed!"};
}

// crusoe: vision transformer ----------------------------------------------------------------------

Lines CrusoeVitLines::operator()(const RunBegan& run) const {
  constexpr double kBytesPerParameter = 4;
  constexpr double kGb = 1e9;
  if (!is_first()) return {};
  return {
      "Model parameters: " + python_grouped(run.parameters),
      "Trainable parameters: " + python_grouped(run.trainable_parameters),
      fmt::format(
          "Model size: ~{} GB (fp32)",
          python_fixed(static_cast<double>(run.parameters) * kBytesPerParameter / kGb, 2)),
      fmt::format("Batches per epoch: {}", run.batches_per_epoch)};
}

Lines CrusoeVitLines::operator()(const StepDone& step) const {
  return {fmt::format(
      "Epoch {} [{}/{}] Loss: {} Speed: {} samples/sec",
      step.at.epoch,
      step.batch,
      step.batches,
      python_fixed(step.sums.mean_loss(), 6),
      python_fixed(step.rates.samples_per_s, 2))};
}

Lines CrusoeVitLines::operator()(const EpochTrained& epoch) const {
  if (!is_first()) return {};
  return {
      fmt::format("Epoch {} Summary:", epoch.at.epoch),
      "  Loss: " + python_fixed(epoch.sums.mean_loss(), 6),
      "  Accuracy: " + python_fixed(epoch.sums.accuracy_percent(), 2) + "%",
      "  Time: " + python_fixed(epoch.seconds, 2) + "s",
      "  Throughput: " + python_fixed(epoch.samples_per_s, 2) + " samples/sec",
      "  Samples: " + python_fixed(epoch.sums.samples, 0),
      fmt::format(
          "  Elapsed: {} min, ETA: {} min", minutes(epoch.elapsed_s), minutes(epoch.eta_s))};
}

Lines CrusoeVitLines::operator()(const SnapshotSaved& snapshot) const {
  return CrusoeMnistLines{context}(snapshot);
}

Lines CrusoeVitLines::operator()(const RunEnded& run) const {
  return CrusoeMnistLines{context}(run);
}

// kaust -------------------------------------------------------------------------------------------

Lines KaustLines::operator()(const RunBegan& run) const {
  if (!is_first()) return {};
  Lines lines;
  if (run.tensorboard_dir) {
    lines.push_back("[Rank 0] TensorBoard logging to: " + *run.tensorboard_dir);
  }
  lines.push_back("[Rank 0] Using DATA_DIR=" + run.data_dir);
  lines.push_back(fmt::format("[Rank 0] Train size (global): {}", run.train_samples));
  lines.push_back(fmt::format("[Rank 0] Val size   (global): {}", run.test_samples));
  lines.push_back(fmt::format("[Rank 0] World size: {}", run.world));
  lines.push_back(fmt::format("[Rank 0] Per-GPU batch size: {}", run.batch_size));
  lines.push_back(fmt::format("[Rank 0] Global batch size: {}", run.batch_size * run.world));
  return lines;
}

Lines KaustLines::operator()(const EpochValidated& epoch) const {
  if (!is_first()) return {};
  const EpochTrained& trained = epoch.trained;
  return {fmt::format(
      "Epoch [{}/{}] LR: {} | Loss (train, val): {}, {} | Accuracy (train, val): {}%, {}% | "
      "Throughput: {} img/s",
      count_of(trained.at),
      context.epochs,
      python_fixed(trained.learning_rate, 6),
      python_fixed(trained.sums.mean_loss(), 3),
      python_fixed(epoch.sums.mean_loss(), 3),
      python_fixed(trained.sums.accuracy_percent(), 2),
      python_fixed(epoch.sums.accuracy_percent(), 2),
      python_fixed(epoch.epoch_samples_per_s(), 1))};
}

Lines KaustLines::operator()(const RunEnded& run) const {
  if (!is_first()) return {};
  return {
      "Finished Training",
      fmt::format("Total execution time = {} sec", python_fixed(run.seconds, 3)),
      fmt::format("Max memory used by tensors = {} bytes", run.peak_tensor_bytes),
      fmt::format("peak rss = {} bytes", run.peak_rss_bytes)};
}

// openacc -----------------------------------------------------------------------------------------

Lines OpenaccLines::operator()(const RunBegan& /*run*/) const {
  return {fmt::format("Local rank  {}", context.local_rank)};
}

Lines OpenaccLines::operator()(const EpochBegan& epoch) const {
  return {
      fmt::format("Local Rank: {}, Epoch: {}, Training ...", context.local_rank, epoch.at.epoch)};
}

Lines OpenaccLines::operator()(const EpochValidated& epoch) const {
  constexpr std::size_t kRule = 75;
  if (context.local_rank != 0) return {};
  const std::string rule(kRule, '-');
  return {
      rule,
      fmt::format(
          "Epoch: {}, Accuracy: {}", epoch.trained.at.epoch, python_repr(accuracy(epoch.sums))),
      rule};
}

Lines OpenaccLines::operator()(const SnapshotSaved& /*snapshot*/) const {
  return {fmt::format("Checkpointing model {} done.", context.rank)};
}

}  // namespace ddprun
