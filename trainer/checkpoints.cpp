#include "trainer/checkpoints.hpp"

#include "base/standard_streams.hpp"
#include "trainer/core/checkpoint_plan.hpp"
#include "trainer/named_tensors.hpp"
#include "trainer/snapshot_files.hpp"
#include "trainer/weights_file.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> generator_bytes() {
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  const auto* const bytes = static_cast<const std::byte*>(state.const_data_ptr());
  return {bytes, bytes + state.nbytes()};
}

/// Copies GPU tensors to the CPU, and yields the others unchanged.
NamedTensors on_cpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.cpu();
  }
  return tensors;
}

void remove_leftovers(
    const fs::path& directory, const CheckpointOptions& options, CheckpointStyle style, int rank) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_leftover_checkpoint(style, rank, name, options.file_name)) continue;
    std::error_code ignored;  // another process may have removed it
    fs::remove(at->path(), ignored);
  }
}

}  // namespace

Checkpoints::Checkpoints(const TrainOptions& options, const WorkerPlace& place)
    : options_(options), place_(place), directory_(options.checkpoints.directory) {}

Result<void> Checkpoints::open() const {
  const auto& style = options_.checkpoints.style;
  if (!style || (place_.rank != 0 && !is_of_each_rank(*style))) return {};
  auto const made = make_directories(directory_);
  if (!made) return with_context("--checkpoint-dir", made.error());
  remove_leftovers(directory_, options_.checkpoints, *style, place_.rank);
  return {};
}

bool Checkpoints::is_due(std::int64_t next_epoch, const Facts& facts) const {
  const auto& style = options_.checkpoints.style;
  if (!style || (place_.rank != 0 && !is_of_each_rank(*style))) return false;
  if (facts.is_first) return has_first_checkpoint(*style);
  const std::int64_t number = next_epoch - 1 - options_.first_epoch;
  return is_checkpoint_due(*style, number, options_.checkpoints.every_epochs, facts.is_last);
}

/// REQUIRES: `state` outlives the value.
Result<PyValue> Checkpoints::value_of(
    CheckpointStyle style,
    const SnapshotState& state,
    const TrainPosition& at,
    const Facts& facts) const {
  const std::int64_t next = at.progress.epoch;
  auto group = optimizer_group(
      name_of(options_.optimizer.kind),
      optimizer_settings(options_.optimizer, facts.learning_rate));
  if (!group) return group.error();
  if (options_.schedule.kind == ScheduleKind::kStep) {
    group->add("initial_lr", {.kind = options_.schedule.base});  // where Python's schedules put it
  }
  return checkpoint_value(
      style,
      state,
      {.finished_epoch = next - 1,
       .samples = facts.samples,
       .loss = facts.loss,
       .best_accuracy = facts.best_accuracy,
       .model = name_of(options_.model.kind),
       .group = *std::move(group),
       .schedule = schedule_state(options_.schedule, next, facts.learning_rate)});
}

std::optional<std::string> Checkpoints::save(
    const TrainPosition& at, const TrainedTensors& trained, const Facts& facts) const {
  const auto& style = options_.checkpoints.style;
  if (!style) return std::nullopt;
  const std::string best = best_file_name(*style);
  const bool is_new_best = facts.is_best && !best.empty() && place_.rank == 0;
  const bool is_due_now = is_due(at.progress.epoch, facts);
  if (!is_due_now && !is_new_best) return std::nullopt;

  const NamedTensors weights = on_cpu(state_of(trained.model));  // in Python's order
  const NamedTensors kept = on_cpu(trained.optimizer.state());
  SnapshotState state;
  state.step = at.progress.step;
  state.epoch = at.progress.epoch;
  state.model = views_of(weights);
  state.optimizer = views_of(kept);
  state.ranks.push_back({.rng = generator_bytes(), .sums = {}});
  for (const auto& item : trained.model.named_parameters()) {
    state.parameters.push_back(item.key());
  }

  const fs::path path = directory_ / options_.checkpoints.file_name.value_or(checkpoint_file_name(
                                         *style, at.progress.epoch - 1, place_.rank));
  const auto value = value_of(*style, state, at, facts);
  Result<void> written = value ? Result<void>() : value.error();
  if (written && is_due_now) written = write_torch_file(path, *value);
  if (written && is_new_best) written = write_torch_file(directory_ / best, *value);
  if (!written) {
    write_stderr(fmt::format(
        "ddptrain: --checkpoint-style: checkpoint not written, training continues: {}\n",
        written.error().detail));
    return std::nullopt;
  }
  return is_due_now ? path.string() : (directory_ / best).string();
}

}  // namespace ddprun
