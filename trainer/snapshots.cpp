#include "trainer/snapshots.hpp"

#include "base/say.hpp"
#include "trainer/named_tensors.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr std::array kSumNames = {"loss", "correct", "samples"};

/// The generator's state, then the metric sums, as bytes: one row of what is gathered.
torch::Tensor row_of_this_rank(const MetricSums& sums) {
  const torch::Tensor rng = at::detail::getDefaultCPUGenerator().get_state();
  const torch::Tensor packed =
      torch::tensor({sums.loss, sums.correct, sums.samples}, torch::kFloat64);
  return torch::cat({rng, packed.view(torch::kUInt8)});
}

constexpr std::int64_t kSumsBytes = std::ssize(kSumNames) * std::int64_t{sizeof(double)};

torch::Tensor rng_of(const torch::Tensor& row) {
  return row.slice(0, 0, row.size(0) - kSumsBytes).clone();
}

MetricSums sums_of(const torch::Tensor& row) {
  std::array<double, kSumNames.size()> values{};
  const torch::Tensor tail = row.slice(0, row.size(0) - kSumsBytes).contiguous();
  std::memcpy(values.data(), tail.const_data_ptr(), sizeof(values));
  return {.loss = values[0], .correct = values[1], .samples = values[2]};
}

RankState rank_state_of(const torch::Tensor& row) {
  const torch::Tensor rng = rng_of(row);
  const auto* const bytes = static_cast<const std::byte*>(rng.const_data_ptr());
  const MetricSums sums = sums_of(row);
  return {
      .rng = {bytes, bytes + rng.nbytes()},
      .sums = {
          {kSumNames[0], sums.loss}, {kSumNames[1], sums.correct}, {kSumNames[2], sums.samples}}};
}

/// The row that rank_state_of() came from. Fails with kCorrupt when a part has another size.
Result<torch::Tensor> row_of(const RankState& rank) {
  torch::Tensor row = torch::empty_like(row_of_this_rank({}));
  std::array<double, kSumNames.size()> values{};
  bool whole = std::ssize(rank.rng) + kSumsBytes == row.size(0);
  for (std::size_t i = 0; i < kSumNames.size(); ++i) {
    const auto found = rank.sums.find(kSumNames[i]);
    whole = whole && found != rank.sums.end();
    if (whole) values[i] = found->second;
  }
  if (!whole) return make_error(Errc::kCorrupt, "the state of a rank has another form than ours");
  auto* const bytes = row.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes, rank.rng.data(), rank.rng.size());
  std::memcpy(bytes + rank.rng.size(), values.data(), sizeof(values));
  return row;
}

Snapshots::Header header_of(const SnapshotState& state) {
  return {
      .verdict = Snapshots::Verdict::kResume,
      .step = state.step,
      .epoch = state.epoch,
      .consumed = state.consumed,
      .batches = state.batches,
      .world = std::ssize(state.ranks),
      .has_momentum = state.optimizer.empty() ? 0 : 1};
}

}  // namespace

Snapshots::Snapshots(const TrainOptions& options, const WorkerPlace& place, ProcessGroup group)
    : options_(options), place_(place), group_(std::move(group)) {}

/// A job with other flags is refused before it takes the directory from the one that runs there.
Result<void> Snapshots::check_before_claim() const {
  const std::filesystem::path directory = options_.snapshot_dir.value_or("");
  const auto newest = peek_newest(directory);
  if (!newest) return with_context("--snapshot-dir", newest.error());
  const auto& found = *newest;
  if (!found) return {};
  const auto same = check_same_job(found->arguments, options_);
  if (same) return {};
  return with_context((directory / found->name.to_string()).string(), same.error());
}

Result<std::unique_ptr<LoadedSnapshot>> Snapshots::take_over() {
  const auto ours = check_before_claim();
  if (!ours) return ours.error();
  auto store = SnapshotStore::claim(
      {.directory = options_.snapshot_dir.value_or(""),
       .keep = 2,
       .run_id = place_.run_id,
       .generation = place_.generation,
       .round = place_.round});
  if (!store) return with_context("--snapshot-dir", store.error());
  store_ = std::move(*store);
  auto found = store_->newest();
  if (!found) return with_context("--snapshot-dir", found.error());
  for (const Error& damaged : found->damaged) {
    say(fmt::format("ddptrain: passed over a damaged snapshot: {}\n", damaged.detail));
  }
  if (!found->snapshot) return std::unique_ptr<LoadedSnapshot>();
  // Again: another job may have saved since, or the newest manifest was of a damaged snapshot.
  const auto same = check_same_job(found->snapshot->state().arguments, options_);
  if (!same) return with_context(store_->path_of(found->snapshot->name()).string(), same.error());
  return std::move(found->snapshot);
}

Result<Snapshots::Told> Snapshots::put_back(Model& model, torch::optim::SGD& optimizer) {
  auto loaded = take_over();
  if (!loaded) return loaded.error();
  if (!*loaded) return Told{};
  const SnapshotState& state = (*loaded)->state();
  const std::string path = store_->path_of((*loaded)->name()).string();

  auto filled = fill(model_tensors(model), state.model);
  if (filled && !state.optimizer.empty()) {
    filled = fill(make_momentum(model, optimizer), state.optimizer);
  }
  if (!filled) return with_context(path, filled.error());
  std::vector<torch::Tensor> rows;
  for (const RankState& rank : state.ranks) {
    auto row = row_of(rank);
    if (!row) return with_context(path, row.error());
    rows.push_back(*std::move(row));
  }
  return Told{.header = header_of(state), .rows = torch::stack(rows)};
}

Result<std::optional<TrainPosition>> Snapshots::resume(Model& model, torch::optim::SGD& optimizer) {
  if (!options_.snapshot_dir) return std::optional<TrainPosition>();

  // Rank 0 does all that can fail; what came of it is the first thing that the others are told, so
  // that no rank waits for one that has given up.
  Told told;
  if (place_.rank == 0) {
    auto done = put_back(model, optimizer);
    const Header failed{.verdict = Verdict::kFailed};
    told = done ? *done : Told{.header = failed, .rows = {}};
    tell(told.header);
    if (!done) return done.error();
  } else {
    tell(told.header);
  }
  const Header& header = told.header;
  if (header.verdict == Verdict::kNothing) return std::optional<TrainPosition>();
  if (header.verdict == Verdict::kFailed) {
    return make_error(Errc::kIo, "rank 0 cannot use the snapshots; its message tells why");
  }

  if (place_.rank != 0) {
    told.rows = torch::empty({header.world, row_of_this_rank({}).size(0)}, torch::kUInt8);
    if (header.has_momentum == 1) static_cast<void>(make_momentum(model, optimizer));
  }
  std::vector<torch::Tensor> tensors{told.rows};
  for (const auto& [name, tensor] : model_tensors(model)) {
    tensors.push_back(tensor);
  }
  for (const auto& [name, tensor] : momentum_tensors(model, optimizer)) {
    tensors.push_back(tensor);
  }
  broadcast(tensors);
  return std::optional(position_from(told));
}

TrainPosition Snapshots::position_from(const Told& told) const {
  const auto& [header, rows] = told;
  TrainPosition position{
      .progress = {.epoch = header.epoch, .step = header.step},
      .consumed = header.consumed,
      .batches = header.batches,
      .sums = {}};
  // A rank that the saving world did not have begins with another's generator: there are no bits
  // to be equal to.
  const torch::Tensor mine = rows[place_.rank % header.world];
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(rng_of(mine));
  if (header.world == place_.world) {
    position.sums = sums_of(mine);
  } else if (place_.rank == 0) {
    for (std::int64_t rank = 0; rank < header.world; ++rank) {
      position.sums.add(sums_of(rows[rank]));
    }
  }
  return position;
}

Result<void> Snapshots::save(
    const TrainPosition& position, Model& model, torch::optim::SGD& optimizer) {
  if (!options_.snapshot_dir) return {};
  const torch::Tensor mine = row_of_this_rank(position.sums);
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

  const NamedTensors weights = model_tensors(model);
  const NamedTensors momentum = momentum_tensors(model, optimizer);
  SnapshotState state{
      .step = position.progress.step,
      .epoch = position.progress.epoch,
      .consumed = position.consumed,
      .batches = position.batches,
      .arguments = arguments_of_job(options_),
      .ranks = {},
      .model = views_of(weights),
      .optimizer = views_of(momentum)};
  std::ranges::transform(rows[0], std::back_inserter(state.ranks), rank_state_of);
  return write(state);
}

Result<void> Snapshots::write(const SnapshotState& state) {
  const auto name = store_->write(state);
  if (name) {
    saved_step_ = state.step;
    return {};
  }
  if (name.error().is(Errc::kCancelled)) return name.error();
  // The snapshot before this one is still whole, so there is nothing to lose by going on.
  say(fmt::format(
      "ddptrain: no snapshot at step {}, training goes on: {}\n", state.step, name.error().detail));
  return {};
}

void Snapshots::tell(Header& header) {
  static_assert(sizeof(Header) % sizeof(std::int64_t) == 0);
  const torch::Tensor words = torch::empty({sizeof(Header) / sizeof(std::int64_t)}, torch::kInt64);
  std::memcpy(words.mutable_data_ptr(), &header, sizeof(header));
  broadcast({words});
  std::memcpy(&header, words.const_data_ptr(), sizeof(header));
}

void Snapshots::broadcast(const std::vector<torch::Tensor>& tensors) {
  constexpr std::size_t kBucketBytes = std::size_t{250} << 20U;
  c10d::broadcast_coalesced(group_, tensors, kBucketBytes, /*rank=*/0);
}

}  // namespace ddprun
