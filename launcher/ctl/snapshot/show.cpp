#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/snapshot/core/snapshot_text.hpp"
#include "launcher/ctl/snapshot/place.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

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

Result<int> inspect_snapshot(const InspectSnapshot& options) {
  const auto path = options.best ? best_snapshot_in(options.path) : snapshot_at(options.path);
  if (!path) return path.error();
  const auto manifest = read_manifest(*path);
  if (!manifest) return manifest.error();
  const auto loaded = load_snapshot(*path);
  if (!loaded) return loaded.error();
  const SnapshotState& state = (*loaded)->state();
  auto const told = write_stdout(
      options.json ? snapshot_json(*manifest, state) : snapshot_text(*manifest, state));
  if (!told) return told.error();
  return kExitOk;
}

Result<int> diff_snapshots(const DiffSnapshots& options) {
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
  auto const told = write_stdout(text);
  if (!told) return told.error();
  return lines.empty() ? kExitOk : kExitRefused;
}

}  // namespace ddprun
