#include "trainer/snapshots.hpp"

#include "base/check.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr char kMomentum[] = "momentum_buffer.";
constexpr std::array kSumNames = {"loss", "correct", "samples"};

// ---- bytes of tensors
// ----------------------------------------------------------------------------

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  DDPRUN_CHECK(tensor.is_contiguous());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

DType dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return DType::kF32;
    case torch::kInt64:
      return DType::kI64;
    default:
      DDPRUN_CHECK(tensor.scalar_type() == torch::kUInt8);
      return DType::kU8;
  }
}

TensorView view_of(std::string name, const torch::Tensor& tensor) {
  return {
      .name = std::move(name),
      .dtype = dtype_of(tensor),
      .shape = tensor.sizes().vec(),
      .bytes = bytes_of(tensor)};
}

/// Overwrites `tensor` by the view of that name. Fails with kCorrupt when there is none that fits.
Result<void> copy_named(
    const std::vector<TensorView>& views, const std::string& name, const torch::Tensor& tensor) {
  const auto found = std::ranges::find(views, name, &TensorView::name);
  const bool fits = found != views.end() && found->dtype == dtype_of(tensor) &&
                    found->shape == tensor.sizes().vec();
  if (!fits) {
    return make_error(
        Errc::kCorrupt,
        fmt::format("tensor '{}' is missing or of another shape than the model's", name));
  }
  std::memcpy(tensor.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
  return {};
}

// ---- what is saved
// --------------------------------------------------------------------------------

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Parameters and buffers, as in Python's state_dict.
NamedTensors model_tensors(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    tensors.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : model.named_buffers()) {
    tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

/// The momentum of each parameter; none before the first step, or without momentum.
NamedTensors momentum_tensors(const Model& model, torch::optim::SGD& optimizer) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    const auto found = optimizer.state().find(item.value().unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const auto& state = static_cast<const torch::optim::SGDParamState&>(*found->second);
    if (!state.momentum_buffer().defined()) continue;
    tensors.emplace_back(kMomentum + item.key(), state.momentum_buffer());
  }
  return tensors;
}

/// Gives every parameter a momentum of its own, to be overwritten.
NamedTensors make_momentum(const Model& model, torch::optim::SGD& optimizer) {
  for (const torch::Tensor& parameter : model.parameters()) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(torch::zeros_like(parameter.detach()));
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
  return momentum_tensors(model, optimizer);
}

std::vector<TensorView> views_of(const NamedTensors& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back(view_of(name, tensor));
  }
  return views;
}

// ---- what each rank holds for itself
// ----------------------------------------------------------------

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
  const auto bytes = bytes_of(rng);
  const MetricSums sums = sums_of(row);
  return {
      .rng = {bytes.begin(), bytes.end()},
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
    fmt::print(stderr, "ddptrain: passed over a damaged snapshot: {}\n", damaged.detail);
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

  for (const auto& [name, tensor] : model_tensors(model)) {
    const auto copied = copy_named(state.model, name, tensor);
    if (!copied) return with_context(path, copied.error());
  }
  if (!state.optimizer.empty()) {
    for (const auto& [name, tensor] : make_momentum(model, optimizer)) {
      const auto copied = copy_named(state.optimizer, name, tensor);
      if (!copied) return with_context(path, copied.error());
    }
  }
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
  if (name) return {};
  if (name.error().is(Errc::kCancelled)) return name.error();
  // The snapshot before this one is still whole, so there is nothing to lose by going on.
  fmt::print(
      stderr,
      "ddptrain: no snapshot at step {}, training goes on: {}\n",
      state.step,
      name.error().detail);
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
