#include "trainer/snapshots.hpp"

#include "base/standard_streams.hpp"
#include "trainer/core/epoch_plan.hpp"
#include "trainer/imported_state.hpp"
#include "trainer/named_tensors.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr std::array kSumNames = {"loss", "correct", kSamplesOfEpoch};

torch::Tensor generator_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

MetricSums sums_of(const std::map<std::string, double>& numbers) {
  return {
      .loss = numbers.at(kSumNames[0]),
      .correct = numbers.at(kSumNames[1]),
      .samples = numbers.at(kSumNames[2])};
}

torch::Tensor rng_of(const torch::Tensor& row) {
  return row.slice(0, 0, generator_state().size(0)).clone();
}

Snapshots::Header header_of(const SnapshotState& state) {
  return {
      .verdict = Snapshots::Verdict::kResume,
      .step = state.step,
      .epoch = state.epoch,
      .consumed = state.consumed,
      .batches = state.batches,
      .world = std::ssize(state.ranks)};
}

/// The last rank's samples refer to the world that saved: at another world size rank 0 has them.
EpochReached reached_by(const SnapshotState& state) {
  const auto& sums = state.ranks.back().sums;
  const auto samples = sums.find(kSamplesOfEpoch);
  const bool has_trained = state.ranks.size() > 1 && samples != sums.end() && samples->second > 0;
  return {
      .consumed = state.consumed,
      .batches = state.batches,
      .last_world = has_trained ? std::optional(std::ssize(state.ranks)) : std::nullopt};
}

}  // namespace

Snapshots::Snapshots(
    const TrainOptions& options,
    const WorkerPlace& place,
    ProcessGroup group,
    std::vector<std::string> extras)
    : options_(options),
      place_(place),
      group_(std::move(group)),
      number_names_(kSumNames.begin(), kSumNames.end()) {
  number_names_.insert(number_names_.end(), extras.begin(), extras.end());
}

/// The generator's state, then the numbers, as bytes: one row of the gathered tensor.
torch::Tensor Snapshots::row_of_this_rank(const TrainPosition& position) const {
  std::vector<double> numbers = {position.sums.loss, position.sums.correct, position.sums.samples};
  for (std::size_t i = kSumNames.size(); i < number_names_.size(); ++i) {
    const auto found = position.extras.find(number_names_[i]);
    numbers.push_back(found == position.extras.end() ? 0 : found->second);
  }
  const torch::Tensor packed = torch::tensor(numbers, torch::kFloat64);
  return torch::cat({generator_state(), packed.view(torch::kUInt8)});
}

std::map<std::string, double> Snapshots::numbers_of(const torch::Tensor& row) const {
  std::vector<double> values(number_names_.size());
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(double));
  const torch::Tensor tail = row.slice(0, row.size(0) - bytes).contiguous();
  std::memcpy(values.data(), tail.const_data_ptr(), static_cast<std::size_t>(bytes));
  std::map<std::string, double> numbers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    numbers.emplace(number_names_[i], values[i]);
  }
  return numbers;
}

RankState Snapshots::rank_state_of(const torch::Tensor& row) const {
  const torch::Tensor rng = rng_of(row);
  const auto* const bytes = static_cast<const std::byte*>(rng.const_data_ptr());
  return {.rng = {bytes, bytes + rng.nbytes()}, .sums = numbers_of(row)};
}

/// The row from which rank_state_of() came. Fails with kCorrupt if a part has another size. An
/// imported state may lack the generator, which this process's then replaces, as in a script that
/// seeds and then loads; the sums, which are then zeros; and other numbers, which are then NaN.
Result<torch::Tensor> Snapshots::row_of(const RankState& rank, bool is_imported) const {
  torch::Tensor row = row_of_this_rank({});
  std::vector<double> values;
  for (const std::string& name : number_names_) {
    const auto found = rank.sums.find(name);
    if (found != rank.sums.end()) {
      values.push_back(found->second);
    } else if (is_imported) {
      values.push_back(values.size() < kSumNames.size() ? 0 : std::nan(""));
    }
  }
  const std::size_t tail = values.size() * sizeof(double);
  const std::size_t head = row.nbytes() - number_names_.size() * sizeof(double);
  const bool has_generator = rank.rng.size() == head || (is_imported && rank.rng.empty());
  if (values.size() != number_names_.size() || !has_generator) {
    return make_error(Errc::kCorrupt, "the state of a rank has an unknown form");
  }
  auto* const bytes = row.mutable_data_ptr<std::uint8_t>();
  if (!rank.rng.empty()) std::memcpy(bytes, rank.rng.data(), head);
  std::memcpy(bytes + head, values.data(), tail);
  return row;
}

/// Refuses a job with other flags before it takes the directory from the job that runs there.
Result<void> Snapshots::check_before_claim() const {
  const std::filesystem::path directory = options_.snapshots.directory.value_or("");
  const auto newest = peek_newest(directory);
  if (!newest) return with_context("--snapshot-dir", newest.error());
  const auto& found = *newest;
  if (!found) return {};
  const auto same = check_same_job(found->arguments, options_);
  if (same) return {};
  return with_context((directory / found->name.to_string()).string(), same.error());
}

Result<Snapshots::Taken> Snapshots::take_over() {
  if (!options_.snapshots.directory) return take_other();
  const auto ours = check_before_claim();
  if (!ours) return ours.error();
  const auto& other = options_.snapshots.begun_with;
  if (std::error_code ignored; other && !std::filesystem::exists(*other, ignored)) {
    return make_error(
        Errc::kNotFound,
        fmt::format(
            "--resume {}: no such file or directory; correct the path, or leave it out", *other));
  }
  auto store = SnapshotStore::claim(
      {.directory = *options_.snapshots.directory,
       .keep = options_.snapshots.keep,
       .run_id = place_.run_id,
       .term = place_.term,
       .round = place_.round});
  if (!store) return with_context("--snapshot-dir", store.error());
  store_ = std::move(*store);
  own_ = store_->name_of_step(0);
  auto found = store_->newest();
  if (!found) return with_context("--snapshot-dir", found.error());
  for (const Error& damaged : found->damaged) {
    write_stderr(fmt::format("ddptrain: skipped a damaged snapshot: {}\n", damaged.detail));
  }
  if (!found->snapshot) return take_other();
  // Again: another job may have saved since, or the newest manifest belonged to a damaged snapshot.
  std::string path = store_->path_of(found->snapshot->name()).string();
  const auto same = check_same_job(found->snapshot->state().arguments, options_);
  if (!same) return with_context(path, same.error());
  return Taken{.snapshot = std::move(found->snapshot), .path = std::move(path)};
}

/// The snapshot of --resume, if the directory has none to resume from.
Result<Snapshots::Taken> Snapshots::take_other() const {
  const auto& other = options_.snapshots.begun_with;
  if (!other) {
    if (place_.attempt > 0) {
      write_stderr(fmt::format(
          "ddptrain: restarted, but {} has no snapshot: training starts over\n",
          options_.snapshots.directory.value_or("")));
    }
    return Taken();
  }
  auto found = find_snapshot(*other);
  if (!found) return with_context("--resume", found.error());
  if (!found->snapshot) {
    write_stderr(
        fmt::format("ddptrain: --resume {} has no snapshot: training starts over\n", *other));
    return Taken();
  }
  const auto same = check_same_job(found->snapshot->state().arguments, options_);
  if (!same) return with_context(*other, same.error());
  return Taken{.snapshot = std::move(found->snapshot), .path = *other};
}

/// The record of the best survives a restart, unless another metric is used from now on.
void Snapshots::take_best(const std::optional<BestSoFar>& saved) {
  best_ = saved;
  const auto& metric = options_.snapshots.keeps_best;
  const bool is_here =
      !store_ || !saved || std::filesystem::exists(store_->path_of(saved->snapshot));
  if (metric && !is_here && saved->metric == *metric) {
    write_stderr(fmt::format(
        "ddptrain: the best so far, {}, is not in {}; the next better one is kept there\n",
        best_text(*saved),
        options_.snapshots.directory.value_or("")));
  }
  if (!saved || !metric || saved->metric == *metric) return;
  write_stderr(fmt::format(
      "ddptrain: the metric of the best changes from {} to {}\n",
      name_of(saved->metric),
      name_of(*metric)));
  best_.reset();
}

Result<Snapshots::Restored> Snapshots::put_back(const TrainedTensors& trained) {
  auto taken = take_over();
  if (!taken) return taken.error();
  const auto& [snapshot, path] = *taken;
  if (!snapshot) return Restored{};
  const SnapshotState& state = snapshot->state();
  const bool is_imported = state.arguments.contains(kImportedFrom);
  if (const auto samples = options_.train_samples) {
    const Tail tail = options_.data.drops_tail ? Tail::kDrop : Tail::kPad;
    const auto reachable = check_reachable(reached_by(state), *samples, tail);
    if (!reachable) return with_context(path, reachable.error());
  }

  auto filled = is_imported ? check_imported(state, trained.model) : Result<void>();
  if (filled) filled = fill(model_tensors(trained.model), state.model);
  if (filled && is_imported) {
    filled = fill_imported(state, trained.optimizer);
  } else if (filled && !state.optimizer.empty()) {
    filled = fill(trained.optimizer.make_state(state.optimizer), state.optimizer);
  }
  if (!filled) return with_context(path, filled.error());
  std::vector<torch::Tensor> rows;
  for (const RankState& rank : state.ranks) {
    auto row = row_of(rank, is_imported);
    if (!row) return with_context(path, row.error());
    rows.push_back(*std::move(row));
  }
  take_best(state.best);
  resumed_step_ = state.step;
  const std::string changed = changed_settings(state.arguments, options_);
  if (!changed.empty())
    write_stderr(fmt::format("ddptrain: resumed from {} with {}\n", path, changed));
  return Restored{.header = header_of(state), .rows = torch::stack(rows)};
}

Result<std::optional<TrainPosition>> Snapshots::resume(const TrainedTensors& trained) {
  if (!options_.snapshots.directory && !options_.snapshots.begun_with) {
    return std::optional<TrainPosition>();
  }
  // Rank 0 does everything that can fail, and sends the result to the others first, so that no rank
  // waits for one that has given up.
  Restored restored;
  if (place_.rank == 0) {
    auto done = put_back(trained);
    const Header failed{.verdict = Verdict::kFailed};
    restored = done ? *done : Restored{.header = failed, .rows = {}};
    broadcast_header(restored.header);
    if (!done) return done.error();
    if (store_) saver_ = std::make_unique<SnapshotSaver>(std::move(store_));
  } else {
    broadcast_header(restored.header);
  }
  const Header& header = restored.header;
  if (header.verdict == Verdict::kNothing) return std::optional<TrainPosition>();
  if (header.verdict == Verdict::kFailed) {
    // As for a lost peer: the search for the cause then leads to rank 0.
    return make_error(Errc::kPeerLost, "rank 0 refused the snapshots; its message says why");
  }

  if (place_.rank != 0) {
    restored.rows = torch::empty({header.world, row_of_this_rank({}).size(0)}, torch::kUInt8);
  }
  const torch::Tensor has_state = trained.optimizer.has_state();
  broadcast({has_state});
  if (place_.rank != 0) static_cast<void>(trained.optimizer.make_state(has_state));
  std::vector<torch::Tensor> tensors{restored.rows};
  for (const auto& [name, tensor] : model_tensors(trained.model)) {
    tensors.push_back(tensor);
  }
  for (const auto& [name, tensor] : trained.optimizer.state()) {
    tensors.push_back(tensor);
  }
  broadcast(tensors);
  return std::optional(position_from(restored));
}

TrainPosition Snapshots::position_from(const Restored& restored) const {
  const auto& [header, rows] = restored;
  TrainPosition position{
      .progress = {.epoch = header.epoch, .step = header.step},
      .consumed = header.consumed,
      .batches = header.batches,
      .sums = {},
      .extras = {}};
  // A rank that the saving world did not have starts with another rank's generator: it has no
  // earlier bits to reproduce.
  const torch::Tensor mine = rows[place_.rank % header.world];
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(rng_of(mine));
  position.extras = numbers_of(mine);
  if (header.world == place_.world) {
    position.sums = sums_of(position.extras);
  } else if (place_.rank == 0) {
    for (std::int64_t rank = 0; rank < header.world; ++rank) {
      position.sums.add(sums_of(numbers_of(rows[rank])));
    }
  }
  // Values that an imported snapshot lacks.
  std::erase_if(position.extras, [](const auto& extra) { return std::isnan(extra.second); });
  return position;
}

Result<bool> Snapshots::is_best(const MetricSums& validated, std::int64_t epoch) {
  const auto& kept = options_.snapshots.keeps_best;
  if (!kept) return false;
  const torch::Tensor verdict = torch::zeros({1}, torch::kInt64);
  if (place_.rank == 0) {
    const auto done = finish();  // only then is it known whether the previous best was saved
    if (!done) return done.error();
    const BestMetric metric = *kept;
    const double value =
        metric == BestMetric::kAccuracy ? validated.accuracy_percent() : validated.mean_loss();
    if (is_better(metric, value, best_)) {
      next_best_ = BestSoFar{.metric = metric, .value = value, .epoch = epoch, .snapshot = own_};
      verdict.fill_(1);
    }
  }
  broadcast({verdict});
  return verdict.item<std::int64_t>() == 1;
}

Result<void> Snapshots::save(const TrainPosition& position, const TrainedTensors& trained) {
  if (!options_.snapshots.directory) {
    if (next_best_) best_ = std::exchange(next_best_, std::nullopt);  // a file may have it
    return {};
  }
  const torch::Tensor mine = row_of_this_rank(position);
  std::vector<std::vector<torch::Tensor>> rows;
  if (place_.rank == 0) {
    rows.emplace_back();
    for (int rank = 0; rank < place_.world; ++rank) {
      rows[0].push_back(torch::empty_like(mine));
    }
  }
  std::vector<torch::Tensor> row{mine};
  group_->gather(rows, row)->wait();
  if (place_.rank != 0) return {};

  auto done = finish();  // of the previous snapshot: its views point to data replaced here
  if (!done) return done;
  saving_step_ = position.progress.step;
  saving_best_ = std::exchange(next_best_, std::nullopt);
  if (saving_best_) saving_best_->snapshot.step = saving_step_;
  if (is_disk_full_) {
    saving_best_.reset();
    return report_failure(make_error(Errc::kIo, "No space left on device (--inject diskfull)"));
  }
  model_.clear();
  for (const auto& item : trained.model.named_parameters()) {
    model_.emplace_back(item.key(), item.value().detach().cpu());  // no copy if it is already there
  }
  for (const auto& item : trained.model.named_buffers()) {
    // The next forward pass changes them while the parameters are copied.
    model_.emplace_back(item.key(), item.value().cpu().clone());
  }
  optimizer_ = trained.optimizer.state();
  for (auto& [name, tensor] : optimizer_) {
    tensor = tensor.cpu();
  }
  SnapshotState state{
      .step = position.progress.step,
      .epoch = position.progress.epoch,
      .consumed = position.consumed,
      .batches = position.batches,
      .arguments = arguments_of_job(options_),
      .ranks = {},
      .model = views_of(model_),
      .optimizer = views_of(optimizer_),
      .best = saving_best_ ? saving_best_ : best_};
  state.arguments.merge(settings_of_job(options_));
  for (const auto& item : trained.model.named_parameters()) {
    state.parameters.push_back(item.key());
  }
  for (const torch::Tensor& gathered : rows[0]) {
    state.ranks.push_back(rank_state_of(gathered));
  }
  saver_->begin(std::move(state));
  return {};
}

void Snapshots::wait_until_copied() {
  if (saver_) saver_->wait_until_copied();
}

Result<void> Snapshots::finish() {
  if (!saver_) return {};
  const auto written = saver_->finish();
  if (written && saving_best_) best_ = saving_best_;
  saving_best_.reset();
  return report_failure(written ? std::nullopt : std::optional(written.error()));
}

std::int64_t Snapshots::saved_step() const {
  return saver_ ? std::max(resumed_step_, saver_->saved_step()) : resumed_step_;
}

Result<void> Snapshots::report_failure(const std::optional<Error>& failure) {
  if (!failure) return {};
  if (failure->is(Errc::kCancelled)) return *failure;
  // The previous snapshot is still intact, so nothing is lost by continuing.
  write_stderr(fmt::format(
      "ddptrain: no snapshot at step {}, training continues: {}\n", saving_step_, failure->detail));
  return {};
}

void Snapshots::broadcast_header(Header& header) {
  static_assert(sizeof(Header) % sizeof(std::int64_t) == 0);
  const torch::Tensor packed = torch::empty({sizeof(Header) / sizeof(std::int64_t)}, torch::kInt64);
  std::memcpy(packed.mutable_data_ptr(), &header, sizeof(header));
  broadcast({packed});
  std::memcpy(&header, packed.const_data_ptr(), sizeof(header));
}

void Snapshots::broadcast(const std::vector<torch::Tensor>& tensors) {
  constexpr std::size_t kBucketBytes = std::size_t{250} << 20U;
  c10d::broadcast_coalesced(group_, tensors, kBucketBytes, /*rank=*/0);
}

}  // namespace ddprun
