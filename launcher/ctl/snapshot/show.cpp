#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/snapshot/core/snapshot_text.hpp"
#include "launcher/ctl/snapshot/place.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::int64_t age_of(const fs::path& snapshot) {
  std::error_code error;
  const auto written = fs::last_write_time(snapshot / "manifest.json", error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             fs::file_time_type::clock::now() - written)
      .count();
}

/// Why a snapshot is damaged, judged by file sizes alone; empty if it is not.
std::string damage_by_size(const fs::path& snapshot, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    std::error_code error;
    const auto size = fs::file_size(snapshot / file.name, error);
    if (error) return fmt::format("{}: {}", file.name, error.message());
    if (size != file.size) {
      return fmt::format("{}: {} bytes, not {}", file.name, size, file.size);
    }
  }
  return {};
}

SnapshotRow row_of(const fs::path& snapshot) {
  SnapshotRow row{
      .name = snapshot.filename().string(),
      .manifest = {},
      .age_s = age_of(snapshot),
      .damage = {}};
  auto manifest = read_manifest(snapshot);
  if (!manifest) {
    row.damage = manifest.error().detail;
    return row;
  }
  row.damage = damage_by_size(snapshot, *manifest);
  row.manifest = *std::move(manifest);
  return row;
}

/// The newest intact manifest names the best snapshot.
void mark_best(std::vector<SnapshotRow>& rows) {
  const auto newest = std::ranges::find_if(rows, &std::string::empty, &SnapshotRow::damage);
  if (newest == rows.end()) return;
  const auto& recorded = newest->manifest.best;
  if (!recorded) return;
  const auto best = std::ranges::find(rows, recorded->snapshot.to_string(), &SnapshotRow::name);
  // The snapshot must have the same record itself: another job's may have the same name.
  if (best != rows.end()) best->is_best = best->manifest.best == recorded;
}

/// The lines of one snapshot, and whether it is intact.
struct Verdict {
  std::string text;
  bool is_sound = true;
};

/// REQUIRES: the error names the path.
void add(Verdict& verdict, const Error& error) {
  verdict.is_sound = false;
  verdict.text += fmt::format("DAMAGED  {}\n", error.detail);
}

Verdict verify(const fs::path& snapshot) {
  Verdict verdict;
  const auto manifest = read_manifest(snapshot);
  if (!manifest) {
    add(verdict, manifest.error());
    return verdict;
  }
  verdict.text += fmt::format("ok       {}\n", (snapshot / "manifest.json").string());
  std::vector<std::vector<std::byte>> contents;
  std::map<std::string, std::span<const std::byte>> by_name;
  for (const ManifestFile& file : manifest->files) {
    const std::string path = (snapshot / file.name).string();
    auto content = read_listed(snapshot, file);
    if (!content) {
      add(verdict, content.error());
      continue;
    }
    verdict.text += fmt::format("ok       {}\n", path);
    contents.push_back(*std::move(content));
    by_name.emplace(file.name, contents.back());
  }
  if (!verdict.is_sound) return verdict;
  // Each file is intact; this checks that together they form a state.
  const auto state = decode_state(*manifest, by_name);
  if (!state) add(verdict, with_context(snapshot.string(), state.error()));
  return verdict;
}

/// A snapshot, or a file that has only weights.
struct Side {
  std::unique_ptr<LoadedSnapshot> snapshot;
  std::unique_ptr<WeightsFile> file;

  const std::vector<TensorView>& weights() const {
    return snapshot ? snapshot->state().model : file->weights().tensors;
  }
};

Result<Side> read_side(const std::string& path) {
  Side side;
  if (std::error_code ignored; fs::is_regular_file(path, ignored)) {
    auto file = read_weights_file(path);
    if (!file) return file.error();
    side.file = *std::move(file);
    return side;
  }
  const auto place = snapshot_at(path);
  if (!place) return place.error();
  auto snapshot = load_snapshot(*place);
  if (!snapshot) return snapshot.error();
  side.snapshot = *std::move(snapshot);
  return side;
}

}  // namespace

Result<int> run_snapshot(const ListSnapshots& options) {
  const auto snapshots = snapshots_in(options.directory);
  if (!snapshots) return snapshots.error();
  std::vector<SnapshotRow> rows;
  for (const fs::path& snapshot : *snapshots) {
    rows.push_back(row_of(snapshot));
  }
  mark_best(rows);
  auto const written =
      write_stdout(options.json ? snapshot_list_json(rows) : snapshot_list_text(rows));
  if (!written) return written.error();
  return kExitOk;
}

Result<int> run_snapshot(const VerifySnapshots& options) {
  std::vector<fs::path> snapshots = {options.path};
  if (!is_snapshot(options.path)) {
    auto found = snapshots_in(options.path);
    if (!found) return found.error();
    snapshots = *std::move(found);
    if (snapshots.empty()) return snapshot_at(options.path).error();
  }
  bool all_sound = true;
  for (const fs::path& snapshot : snapshots) {
    const Verdict verdict = verify(snapshot);
    all_sound = all_sound && verdict.is_sound;
    auto const written = write_stdout(verdict.text);
    if (!written) return written.error();
  }
  return all_sound ? kExitOk : kExitRefused;
}

Result<int> run_snapshot(const InspectSnapshot& options) {
  const auto path = options.best ? best_snapshot_in(options.path) : snapshot_at(options.path);
  if (!path) return path.error();
  const auto manifest = read_manifest(*path);
  if (!manifest) return manifest.error();
  const auto loaded = load_snapshot(*path);
  if (!loaded) return loaded.error();
  const SnapshotState& state = (*loaded)->state();
  auto const written = write_stdout(
      options.json ? snapshot_json(*manifest, state) : snapshot_text(*manifest, state));
  if (!written) return written.error();
  return kExitOk;
}

Result<int> run_snapshot(const DiffSnapshots& options) {
  const auto left = read_side(options.left);
  if (!left) return left.error();
  const auto right = read_side(options.right);
  if (!right) return right.error();
  const bool both = left->snapshot && right->snapshot;
  const auto lines = both ? differences(left->snapshot->state(), right->snapshot->state())
                          : tensor_differences("model", left->weights(), right->weights());
  std::string text;
  for (const std::string& line : lines) {
    text.append(line).append("\n");
  }
  if (lines.empty()) {
    text = fmt::format(
        "{} {} tensors of the model are equal, bit for bit\n",
        both ? "no differences; the" : "the",
        left->weights().size());
  }
  auto const written = write_stdout(text);
  if (!written) return written.error();
  return lines.empty() ? kExitOk : kExitRefused;
}

}  // namespace ddprun
