#include "launcher/ctl/snapshot/core/snapshot_text.hpp"

#include "launcher/ctl/core/byte_size.hpp"
#include "trainer/core/tensor_diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t size_of_files(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) {
    bytes += file.size;
  }
  return bytes;
}

/// "5 min".
std::string age_text(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (seconds < kMinute) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < kHour) return fmt::format("{} min", seconds / kMinute);
  if (seconds < kDay) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} d", seconds / kDay);
}

std::string shape_text(const TensorView& tensor) {
  return fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ","));
}

std::vector<TensorView> by_name(std::vector<TensorView> tensors) {
  std::ranges::sort(tensors, {}, &TensorView::name);
  return tensors;
}

std::string tensors_text(std::string_view title, const std::vector<TensorView>& tensors) {
  std::uint64_t bytes = 0;
  std::string lines;
  for (const TensorView& tensor : by_name(tensors)) {
    bytes += tensor.bytes.size();
    lines += fmt::format("  {:<40} {}\n", tensor.name, shape_text(tensor));
  }
  return fmt::format("{}: {} tensors, {}\n{}", title, tensors.size(), size_text(bytes), lines);
}

Json tensors_json(const std::vector<TensorView>& tensors) {
  Json list = Json::array();
  for (const TensorView& tensor : by_name(tensors)) {
    Json entry;
    entry["name"] = tensor.name;
    entry["dtype"] = name_of(tensor.dtype);
    entry["shape"] = tensor.shape;
    list.push_back(std::move(entry));
  }
  return list;
}

/// JSON has no infinities and no NaN: they become null.
Json rank_json(const RankState& rank) {
  Json json;
  json["rng_bytes"] = rank.rng.size();
  json["sums"] = Json::object();
  for (const auto& [name, sum] : rank.sums) {
    json["sums"][name] = sum;
  }
  return json;
}

template <class T>
void compare_field(
    std::vector<std::string>& lines, std::string_view what, const T& left, const T& right) {
  if (left != right) lines.push_back(fmt::format("{}: {} | {}", what, left, right));
}

void compare_arguments(
    std::vector<std::string>& lines,
    const std::map<std::string, std::string>& left,
    const std::map<std::string, std::string>& right) {
  constexpr std::string_view kNone = "(none)";
  std::set<std::string> names;
  for (const auto* const arguments : {&left, &right}) {
    for (const auto& [name, value] : *arguments) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const auto of = [&](const auto& arguments) {
      const auto found = arguments.find(name);
      return found == arguments.end() ? kNone : std::string_view(found->second);
    };
    compare_field(lines, name, of(left), of(right));
  }
}

void compare_ranks(
    std::vector<std::string>& lines,
    const std::vector<RankState>& left,
    const std::vector<RankState>& right) {
  compare_field(lines, "world", left.size(), right.size());
  for (std::size_t rank = 0; rank < std::min(left.size(), right.size()); ++rank) {
    if (left[rank].rng != right[rank].rng) {
      lines.push_back(fmt::format("rank {}: random number generator", rank));
    }
    if (left[rank].sums != right[rank].sums) {
      lines.push_back(fmt::format(
          "rank {}: sums: {} | {}",
          rank,
          fmt::join(left[rank].sums, ", "),
          fmt::join(right[rank].sums, ", ")));
    }
  }
}

}  // namespace

std::string snapshot_list_text(const std::vector<SnapshotRow>& rows) {
  std::size_t width = std::string_view("name").size();
  for (const SnapshotRow& row : rows) {
    width = std::max(width, row.name.size());
  }
  std::string text = fmt::format(
      "{:<{}} {:>12} {:>6} {:>6} {:>9} {:>7}  {}\n",
      "name",
      width,
      "step",
      "epoch",
      "world",
      "size",
      "age",
      "state");
  for (const SnapshotRow& row : rows) {
    if (!row.damage.empty()) {
      text += fmt::format(
          "{:<{}} {:>12} {:>6} {:>6} {:>9} {:>7}  damaged: {}\n",
          row.name,
          width,
          "-",
          "-",
          "-",
          "-",
          age_text(row.age_s),
          row.damage);
      continue;
    }
    const auto& best = row.manifest.best;
    text += fmt::format(
        "{:<{}} {:>12} {:>6} {:>6} {:>9} {:>7}  complete{}\n",
        row.name,
        width,
        row.manifest.name.step,
        row.manifest.epoch,
        row.manifest.world,
        size_text(size_of_files(row.manifest)),
        age_text(row.age_s),
        row.is_best && best ? ", best: " + best_text(*best) : "");
  }
  return text;
}

std::string snapshot_list_json(const std::vector<SnapshotRow>& rows) {
  Json list = Json::array();
  for (const SnapshotRow& row : rows) {
    Json entry;
    entry["name"] = row.name;
    entry["complete"] = row.damage.empty();
    entry["age_s"] = row.age_s;
    if (row.damage.empty()) {
      entry["step"] = row.manifest.name.step;
      entry["epoch"] = row.manifest.epoch;
      entry["world"] = row.manifest.world;
      entry["bytes"] = size_of_files(row.manifest);
      if (row.is_best) entry["best"] = Json::parse(manifest_json(row.manifest)).at("best");
    } else {
      entry["damage"] = row.damage;
    }
    list.push_back(std::move(entry));
  }
  return list.dump(2) + "\n";
}

std::string snapshot_text(const Manifest& manifest, const SnapshotState& state) {
  std::string text = fmt::format(
      "snapshot    {}\nstep        {}\nepoch       {}, of which {} samples and {} batches of each "
      "rank are consumed\nworld       {}\nwritten by  claim {}, term {}, round {}\n",
      manifest.name.to_string(),
      state.step,
      state.epoch,
      state.consumed,
      state.batches,
      state.ranks.size(),
      manifest.name.claim,
      manifest.name.term,
      manifest.name.round);
  if (manifest.best) {
    text += fmt::format(
        "best        {}, {}\n", best_text(*manifest.best), manifest.best->snapshot.to_string());
  }
  text += "arguments\n";
  for (const auto& [name, value] : state.arguments) {
    text += fmt::format("  {:<40} {}\n", name, value);
  }
  text += "files\n";
  for (const ManifestFile& file : manifest.files) {
    text += fmt::format("  {:<40} {:>9}  {}\n", file.name, size_text(file.size), file.sha256);
  }
  text += tensors_text("model", state.model);
  text += tensors_text("optimizer", state.optimizer);
  text += state.parameters.empty()
              ? "parameters: order not saved\n"
              : fmt::format("parameters: {}, in order\n", state.parameters.size());
  for (std::size_t rank = 0; rank < state.ranks.size(); ++rank) {
    const RankState& own = state.ranks[rank];
    text += fmt::format("rank {}: generator of {} bytes", rank, own.rng.size());
    for (const auto& [name, sum] : own.sums) {
      text += fmt::format(", {} {}", name, sum);
    }
    text += '\n';
  }
  return text;
}

std::string snapshot_json(const Manifest& manifest, const SnapshotState& state) {
  Json json = Json::parse(manifest_json(manifest));
  json["name"] = manifest.name.to_string();
  json["model"] = tensors_json(state.model);
  json["optimizer"] = tensors_json(state.optimizer);
  json["parameters"] = state.parameters;
  json["ranks"] = Json::array();
  for (const RankState& rank : state.ranks) {
    json["ranks"].push_back(rank_json(rank));
  }
  return json.dump(2) + "\n";
}

std::vector<std::string> tensor_differences(
    const std::string& place,
    const std::vector<TensorView>& left,
    const std::vector<TensorView>& right) {
  std::map<std::string_view, std::pair<const TensorView*, const TensorView*>> pairs;
  for (const TensorView& tensor : left) {
    pairs[tensor.name].first = &tensor;
  }
  for (const TensorView& tensor : right) {
    pairs[tensor.name].second = &tensor;
  }
  std::vector<std::string> lines;
  for (const auto& [name, both] : pairs) {
    const auto& [ours, theirs] = both;
    std::string what;
    if (ours == nullptr || theirs == nullptr) {
      what = ours == nullptr ? "only in the second" : "only in the first";
    } else if (shape_text(*ours) != shape_text(*theirs)) {
      what = fmt::format("{} | {}", shape_text(*ours), shape_text(*theirs));
    } else if (const TensorDiff diff = compare(*ours, *theirs); !diff.equal()) {
      what = fmt::format(
          "{} of {} elements differ, by at most {:.6g}",
          diff.different,
          diff.elements,
          diff.largest);
    }
    if (!what.empty()) lines.push_back(fmt::format("{} {}: {}", place, name, what));
  }
  return lines;
}

std::vector<std::string> differences(const SnapshotState& left, const SnapshotState& right) {
  std::vector<std::string> lines;
  compare_arguments(lines, left.arguments, right.arguments);
  compare_field(lines, "step", left.step, right.step);
  compare_field(lines, "epoch", left.epoch, right.epoch);
  compare_field(lines, "samples of the epoch", left.consumed, right.consumed);
  compare_field(lines, "batches of the epoch", left.batches, right.batches);
  const auto best_of = [](const SnapshotState& state) {
    return state.best ? best_text(*state.best) : "(none)";
  };
  compare_field(lines, "best", best_of(left), best_of(right));
  compare_ranks(lines, left.ranks, right.ranks);
  for (auto& line : tensor_differences("model", left.model, right.model)) {
    lines.push_back(std::move(line));
  }
  for (auto& line : tensor_differences("optimizer", left.optimizer, right.optimizer)) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ddprun
