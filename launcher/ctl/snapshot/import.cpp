#include "base/exit_status.hpp"
#include "base/format_error.hpp"
#include "base/log.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/snapshot/place.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"
#include "trainer/core/python_import.hpp"
#include "trainer/snapshot_files.hpp"
#include "trainer/weights_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// A directory in use is refused: claiming it would end the job that uses it.
Result<void> check_unused(const fs::path& directory) {
  if (std::error_code ignored; !fs::exists(directory, ignored)) return {};
  const auto entries = list_snapshots(directory);
  if (!entries) return entries.error();
  if (entries->claim_max == 0 && entries->snapshots.empty()) return {};
  return invalid_argument(
      "--to {}: the directory is or was used for snapshots; give a new one", directory.string());
}

/// An invalid file is kCorrupt, not a usage error.
Error of_file(const std::string& path, const Error& error) {
  const Error detailed = with_context(path, error);
  return error.is(Errc::kInvalidArgument) ? make_error(Errc::kCorrupt, detailed.detail) : detailed;
}

std::string summary_of(const fs::path& path, const SnapshotState& state) {
  const auto kind = state.arguments.find("--optimizer");
  std::string optimizer;
  if (!state.optimizer.empty()) {
    optimizer = fmt::format(
        ", {} of the optimizer ({})",
        state.optimizer.size(),
        kind == state.arguments.end() ? "Adam or AdamW" : std::string_view(kind->second));
  }
  return fmt::format(
      "{}: next epoch {}, {} steps done; {} tensors of the model{}\n",
      path.string(),
      state.epoch,
      state.step,
      state.model.size(),
      optimizer);
}

}  // namespace

Result<int> run_snapshot(const ImportSnapshot& options) {
  const auto unused = check_unused(options.to);
  if (!unused) return unused.error();
  const auto file = read_weights_file(options.path);
  if (!file) {
    const Error& error = file.error();  // contains the path
    return error.is(Errc::kInvalidArgument) ? make_error(Errc::kCorrupt, error.detail) : error;
  }
  const auto imported = import_checkpoint(
      (*file)->root(),
      (*file)->weights(),
      options.path,
      {.epoch = options.epoch, .step = options.step, .weights_only = options.weights_only});
  if (!imported) return of_file(options.path, imported.error());

  auto store = SnapshotStore::claim({.directory = options.to, .run_id = "ddpctl-snapshot-import"});
  if (!store) return store.error();
  const auto name = (*store)->write(imported->state);
  if (!name) {
    // So that the import can be tried again.
    remove_tree(fs::path(options.to) / claim_name((*store)->claim_number()));
    return with_context("--to", name.error());
  }
  for (const std::string& note : imported->notes) {
    report("{}: {}", options.path, note);
  }
  auto const written = write_stdout(summary_of((*store)->path_of(*name), imported->state));
  if (!written) return written.error();
  return kExitOk;
}

}  // namespace ddprun
