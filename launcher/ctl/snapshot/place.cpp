#include "launcher/ctl/snapshot/place.hpp"

#include "base/format_error.hpp"
#include "trainer/snapshot_files.hpp"

#include <algorithm>
#include <functional>
#include <system_error>

namespace ddprun {

bool is_snapshot(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / "manifest.json", ignored) ||
         SnapshotName::parse(path.filename().string()).has_value();
}

Result<std::vector<std::filesystem::path>> snapshots_in(const std::filesystem::path& directory) {
  auto entries = list_snapshots(directory);
  if (!entries) return entries.error();
  std::ranges::sort(entries->snapshots, std::greater{});
  std::vector<std::filesystem::path> paths;
  for (const SnapshotName& name : entries->snapshots) {
    paths.push_back(directory / name.to_string());
  }
  return paths;
}

Result<std::filesystem::path> snapshot_at(const std::filesystem::path& path) {
  if (is_snapshot(path)) return path;
  const auto found = snapshots_in(path);
  if (!found) return found.error();
  if (!found->empty()) return found->front();
  return format_error(Errc::kNotFound, "{}: contains no snapshot", path.string());
}

Result<std::filesystem::path> best_snapshot_in(const std::filesystem::path& directory) {
  const auto listed = snapshots_in(directory);  // fails if there is no such directory
  if (!listed) return listed.error();
  const auto newest = peek_newest(directory);
  if (!newest) return newest.error();
  const auto& manifest = *newest;
  if (!manifest || !manifest->best) {
    return format_error(
        Errc::kNotFound,
        "{}: no snapshot in it says which is the best; train with ddptrain --keep-best",
        directory.string());
  }
  std::filesystem::path path = directory / manifest->best->snapshot.to_string();
  if (std::error_code ignored; std::filesystem::exists(path, ignored)) {
    const auto own = read_manifest(path);
    if (!own) return own.error();
    if (own->best == manifest->best) return path;  // another job's may have the same name
  }
  return format_error(
      Errc::kNotFound,
      "{}: the best snapshot is gone ({})",
      path.string(),
      best_text(*manifest->best));
}

}  // namespace ddprun
