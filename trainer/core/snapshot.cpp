#include "trainer/core/snapshot.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"
#include "trainer/core/corrupt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <set>
#include <utility>

namespace ddprun {
namespace {

constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kRanksFile[] = "ranks.safetensors";
constexpr char kParameters[] = "parameters";  // in the metadata: their names, one per line

std::string rank_prefix(std::size_t rank) {
  return fmt::format("rank{}.", rank);
}

std::vector<TensorView> rank_tensors(const std::vector<RankState>& ranks) {
  std::vector<TensorView> tensors;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankState& state = ranks[rank];
    tensors.push_back(TensorView{
        .name = rank_prefix(rank) + "rng",
        .dtype = DType::kU8,
        .shape = {std::ssize(state.rng)},
        .bytes = state.rng});
    for (const auto& [name, sum] : state.sums) {
      tensors.push_back(TensorView{
          .name = rank_prefix(rank) + "sum." + name,
          .dtype = DType::kF64,
          .shape = {},
          .bytes = std::as_bytes(std::span(&sum, 1))});
    }
  }
  return tensors;
}

/// Stores one tensor of ranks.safetensors in its place; yields whether there is such a place.
bool place_rank_tensor(const TensorView& tensor, std::vector<RankState>& ranks) {
  constexpr std::string_view kRank = "rank";
  constexpr std::string_view kSum = "sum.";
  std::string_view name = tensor.name;
  const std::size_t dot = name.find('.');
  if (!name.starts_with(kRank) || dot == std::string_view::npos) return false;
  const auto rank = parse_int<std::size_t>(name.substr(kRank.size(), dot - kRank.size()));
  if (!rank || *rank >= ranks.size()) return false;
  RankState& state = ranks[*rank];
  name.remove_prefix(dot + 1);

  if (name == "rng" && tensor.dtype == DType::kU8) {
    state.rng.assign(tensor.bytes.begin(), tensor.bytes.end());
    return true;
  }
  if (!name.starts_with(kSum) || tensor.dtype != DType::kF64 || !tensor.shape.empty()) return false;
  double sum = 0;
  std::memcpy(&sum, tensor.bytes.data(), sizeof sum);
  state.sums.emplace(name.substr(kSum.size()), sum);
  return true;
}

Result<std::vector<RankState>> read_ranks(const DecodedTensors& file, std::int64_t world) {
  // Every rank has the state of its generator here, so the world is at most as large as this list,
  // whatever the manifest says.
  if (std::cmp_greater(world, file.tensors.size())) {
    return corrupt(fmt::format("{}: the state of some of {} ranks is missing", kRanksFile, world));
  }
  std::vector<RankState> ranks(static_cast<std::size_t>(world));
  std::set<std::string> generators;
  for (const TensorView& tensor : file.tensors) {
    if (!place_rank_tensor(tensor, ranks)) {
      return corrupt(fmt::format("{}: tensor '{}' is not expected", kRanksFile, tensor.name));
    }
    if (tensor.name.ends_with(".rng")) generators.insert(tensor.name);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!generators.contains(rank_prefix(rank) + "rng")) {
      return corrupt(fmt::format("{}: the state of rank {} is missing", kRanksFile, rank));
    }
  }
  return ranks;
}

/// Both counts come from the same batches. Imported ranks may have no sums.
Result<void> check_samples(const Manifest& manifest, const std::vector<RankState>& ranks) {
  double counted = 0;
  for (const RankState& rank : ranks) {
    const auto found = rank.sums.find(kSamplesOfEpoch);
    if (found == rank.sums.end()) return {};
    counted += found->second;
  }
  const auto consumed = static_cast<double>(manifest.consumed);
  const auto precision = manifest.arguments.find("--amp");
  const bool may_overflow = precision == manifest.arguments.end() || precision->second == "fp16";
  if (counted == consumed || (may_overflow && counted >= 0 && counted < consumed)) return {};
  return corrupt(fmt::format(
      "manifest: 'samples_consumed' is {}, but the ranks count {} samples of that epoch; they "
      "belong to different snapshots",
      manifest.consumed,
      counted));
}

std::vector<std::string> read_parameters(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kParameters);
  if (found == metadata.end()) return {};
  const auto names = split(found->second, '\n');
  return {names.begin(), names.end()};
}

Result<DecodedTensors> read_tensors(
    const std::map<std::string, std::span<const std::byte>>& contents, const char* name) {
  const auto found = contents.find(name);
  if (found == contents.end()) return corrupt(fmt::format("{}: not in the manifest", name));
  auto decoded = decode_safetensors(found->second);
  if (!decoded) return with_context(name, decoded.error());
  return decoded;
}

}  // namespace

Manifest manifest_of(const SnapshotState& state, const SnapshotName& name) {
  return {
      .name = name,
      .epoch = state.epoch,
      .consumed = state.consumed,
      .batches = state.batches,
      .world = std::ssize(state.ranks),
      .arguments = state.arguments,
      .files = {},
      .best = state.best};
}

std::map<std::string, EncodedTensors> encode_state(const SnapshotState& state) {
  DDPRUN_CHECK(!state.ranks.empty());
  // Tools that know only torch's tensors require this entry.
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::map<std::string, EncodedTensors> files;
  files[kModelFile] = encode_safetensors(state.model, metadata);
  auto with_names = metadata;
  if (!state.parameters.empty()) {
    with_names[kParameters] = fmt::format("{}", fmt::join(state.parameters, "\n"));
  }
  files[kOptimizerFile] = encode_safetensors(state.optimizer, with_names);
  files[kRanksFile] = encode_safetensors(rank_tensors(state.ranks), metadata);
  return files;
}

Result<SnapshotState> decode_state(
    const Manifest& manifest, const std::map<std::string, std::span<const std::byte>>& contents) {
  auto model = read_tensors(contents, kModelFile);
  if (!model) return model.error();
  auto optimizer = read_tensors(contents, kOptimizerFile);
  if (!optimizer) return optimizer.error();
  const auto rank_file = read_tensors(contents, kRanksFile);
  if (!rank_file) return rank_file.error();
  auto ranks = read_ranks(*rank_file, manifest.world);
  if (!ranks) return ranks.error();
  const auto same = check_samples(manifest, *ranks);
  if (!same) return same.error();
  return SnapshotState{
      .step = manifest.name.step,
      .epoch = manifest.epoch,
      .consumed = manifest.consumed,
      .batches = manifest.batches,
      .arguments = manifest.arguments,
      .ranks = *std::move(ranks),
      .model = std::move(model->tensors),
      .optimizer = std::move(optimizer->tensors),
      .parameters = read_parameters(optimizer->metadata),
      .best = manifest.best};
}

}  // namespace ddprun
