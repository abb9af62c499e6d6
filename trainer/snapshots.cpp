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

std::map<std::string, std::string> settings_of(const OptimizerOptions& optimizer) {
  return {
      {"--learning-rate", fmt::format("{}", optimizer.learning_rate)},
      {"--momentum", fmt::format("{}", optimizer.momentum)},
      {"--weight-decay", fmt::format("{}", optimizer.weight_decay)}};
}

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
      .world = std::ssize(state.ranks),
      .has_optimizer = state.optimizer.empty() ? 0 : 1};
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

/// The generator's state, then the numbers, as bytes: one row of what is gathered.
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

/// The row that rank_state_of() came from. Fails with kCorrupt when a part has another size.
Result<torch::Tensor> Snapshots::row_of(const RankState& rank) const {
  torch::Tensor row = row_of_this_rank({});
  std::vector<double> values;
  for (const std::string& name : number_names_) {
    const auto found = rank.sums.find(name);
    if (found != rank.sums.end()) values.push_back(found->second);
  }
  const std::size_t tail = values.size() * sizeof(double);
  if (values.size() != number_names_.size() || rank.rng.size() + tail != row.nbytes()) {
    return make_error(Errc::kCorrupt, "the state of a rank has another form than ours");
  }
  auto* const bytes = row.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes, rank.rng.data(), rank.rng.size());
  std::memcpy(bytes + rank.rng.size(), values.data(), tail);
  return row;
}

/// A job with other flags is refused before it takes the directory from the one that runs there.
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

Result<std::unique_ptr<LoadedSnapshot>> Snapshots::take_over() {
  const auto ours = check_before_claim();
  if (!ours) return ours.error();
  auto store = SnapshotStore::claim(
      {.directory = options_.snapshots.directory.value_or(""),
       .keep = options_.snapshots.keep,
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

Result<Snapshots::Told> Snapshots::put_back(const TrainedTensors& trained) {
  auto loaded = take_over();
  if (!loaded) return loaded.error();
  if (!*loaded) return Told{};
  const SnapshotState& state = (*loaded)->state();
  const std::string path = store_->path_of((*loaded)->name()).string();

  auto filled = fill(model_tensors(trained.model), state.model);
  if (filled && !state.optimizer.empty()) {
    filled = fill(trained.optimizer.make_state(), state.optimizer);
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

Result<std::optional<TrainPosition>> Snapshots::resume(const TrainedTensors& trained) {
  if (!options_.snapshots.directory) return std::optional<TrainPosition>();

  // Rank 0 does all that can fail; what came of it is the first thing that the others are told, so
  // that no rank waits for one that has given up.
  Told told;
  if (place_.rank == 0) {
    auto done = put_back(trained);
    const Header failed{.verdict = Verdict::kFailed};
    told = done ? *done : Told{.header = failed, .rows = {}};
    tell(told.header);
    if (!done) return done.error();
    saver_ = std::make_unique<SnapshotSaver>(std::move(store_));
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
    if (header.has_optimizer == 1) static_cast<void>(trained.optimizer.make_state());
  }
  std::vector<torch::Tensor> tensors{told.rows};
  for (const auto& [name, tensor] : model_tensors(trained.model)) {
    tensors.push_back(tensor);
  }
  for (const auto& [name, tensor] : trained.optimizer.state()) {
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
      .sums = {},
      .extras = {}};
  // A rank that the saving world did not have begins with another's generator: there are no bits
  // to be equal to.
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
  return position;
}

Result<void> Snapshots::save(const TrainPosition& position, const TrainedTensors& trained) {
  if (!options_.snapshots.directory) return {};
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

  auto done = finish();  // of the one before: its views point into what is replaced here
  if (!done) return done;
  saving_step_ = position.progress.step;
  if (is_disk_full_) {
    return told_failure(make_error(Errc::kIo, "No space left on device (--inject diskfull)"));
  }
  model_.clear();
  for (const auto& item : trained.model.named_parameters()) {
    model_.emplace_back(item.key(), item.value().detach().cpu());  // the same where it is there
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
      .optimizer = views_of(optimizer_)};
  for (const auto& [flag, value] : settings_of(options_.optimizer)) {
    state.arguments.emplace(flag, value);  // for Python's optimizer; they may change on resuming
  }
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
  return told_failure(written ? std::nullopt : std::optional(written.error()));
}

std::int64_t Snapshots::saved_step() const {
  return saver_ ? saver_->saved_step() : -1;
}

Result<void> Snapshots::told_failure(const std::optional<Error>& failure) {
  if (!failure) return {};
  if (failure->is(Errc::kCancelled)) return *failure;
  // The snapshot before this one is still whole, so there is nothing to lose by going on.
  say(fmt::format(
      "ddptrain: no snapshot at step {}, training goes on: {}\n", saving_step_, failure->detail));
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
