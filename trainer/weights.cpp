#include "trainer/weights.hpp"

#include "base/standard_streams.hpp"
#include "trainer/models/load_weights.hpp"
#include "trainer/snapshot_store.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// `path`; for a snapshot or a directory of snapshots, the model file of the newest one.
Result<std::string> file_of_weights(const fs::path& path) {
  if (std::error_code ignored; !fs::is_directory(path, ignored)) return path.string();
  const auto found = find_snapshot(path);
  if (!found) return found.error();
  for (const Error& damaged : found->damaged) {
    write_stderr(fmt::format("ddptrain: skipped a damaged snapshot: {}\n", damaged.detail));
  }
  if (!found->snapshot) {
    return make_error(
        Errc::kNotFound,
        fmt::format("{}: contains no snapshot; give one, or a file of weights", path.string()));
  }
  const fs::path newest = path / found->snapshot->name().to_string();
  std::error_code ignored;
  return ((fs::exists(newest, ignored) ? newest : path) / kModelFile).string();
}

}  // namespace

Result<std::string> begin_with(const Model& model, const std::string& path) {
  const auto file = read_weights_file(path);
  if (!file) return file.error();
  const auto report = load_weights(model, (*file)->weights().tensors);
  if (!report) return with_context(path, report.error());
  return fmt::format("{}: {}", path, summary_of(*report, state_of(model).size()));
}

Result<void> take_weights(const Model& model, const std::string& from) {
  const auto found = file_of_weights(from);
  if (!found) return found.error();
  const std::string& path = *found;
  const auto file = read_weights_file(path);
  if (!file) return file.error();
  const auto report = load_weights(model, (*file)->weights().tensors);
  if (report && report->is_complete()) return {};
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "{}: {}; give --model, --classes and --image-size as in its training",
          path,
          report ? summary_of(*report, state_of(model).size()) : report.error().detail));
}

}  // namespace ddprun
