#include "base/flag_checks.hpp"
#include "base/format_error.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"

#include <CLI/CLI.hpp>

namespace ddprun {

namespace {

void add_required(CLI::App& verb, const char* name, std::string& value, const char* help) {
  verb.add_option(name, value, help)->required()->check(not_empty());
}

void add_import(CLI::App& snapshot, ImportSnapshot& raw) {
  constexpr std::int64_t kCountMax = 1'000'000'000;
  CLI::App* const from_python =
      snapshot.add_subcommand("import", "Make a snapshot from a Python file");
  add_required(*from_python, "FILE", raw.path, "File of torch.save() or safetensors");
  add_required(
      *from_python, "--to", raw.to, "New directory, for ddptrain --snapshot-dir or --resume");
  from_python->add_option("--epoch", raw.epoch, "Epoch to resume with (default: from the file)")
      ->transform(count(0, kCountMax));
  from_python->add_option("--step", raw.step, "Updates made so far (default: from the file)")
      ->transform(count(0, kCountMax));
  from_python->add_flag("--weights-only", raw.weights_only, "Leave out the optimizer's state");
}

}  // namespace

void add_snapshot(CLI::App& app, RawSnapshot& raw) {
  CLI::App* const snapshot =
      app.add_subcommand("snapshot", "Show, check, compare and convert snapshots of ddptrain");
  snapshot->require_subcommand(1);
  constexpr char kSnapshot[] = "A snapshot, or a directory of snapshots: its newest one";
  constexpr char kBest[] = "Use the best one of a directory, as kept by ddptrain --keep-best";

  CLI::App* const ls = snapshot->add_subcommand("ls", "List the snapshots of a directory");
  add_required(*ls, "DIR", raw.ls.directory, "The --snapshot-dir");
  ls->add_flag("--json", raw.ls.json, "Print one JSON array");

  CLI::App* const verify = snapshot->add_subcommand("verify", "Check every byte");
  add_required(*verify, "PATH", raw.verify.path, "A snapshot, or a directory: all its snapshots");

  CLI::App* const inspect = snapshot->add_subcommand("inspect", "Show the content of a snapshot");
  add_required(*inspect, "SNAPSHOT", raw.inspect.path, kSnapshot);
  inspect->add_flag("--best", raw.inspect.best, kBest);
  inspect->add_flag("--json", raw.inspect.json, "Print one JSON object");

  CLI::App* const diff =
      snapshot->add_subcommand("diff", "Compare two snapshots or files of weights");
  add_required(*diff, "A", raw.diff.left, kSnapshot);
  add_required(*diff, "B", raw.diff.right, "The other");

  CLI::App* const to_python = snapshot->add_subcommand("export", "Write a file for Python");
  add_required(*to_python, "SNAPSHOT", raw.to_python.path, kSnapshot);
  add_required(
      *to_python, "--to", raw.to_python.to, "FILE.safetensors, or another name for torch.load()");
  to_python->add_flag("--best", raw.to_python.best, kBest);
  to_python->add_flag("--weights-only", raw.to_python.weights_only, "A bare state dict");
  to_python->add_option("--prefix", raw.to_python.prefix, "Prefix of each name, such as 'module.'");
  add_import(*snapshot, raw.from_python);
}

Result<SnapshotCommand> checked(const CLI::App& app, const RawSnapshot& raw) {
  const CLI::App* const snapshot = app.get_subcommand("snapshot");
  if (snapshot->got_subcommand("ls")) return SnapshotCommand{raw.ls};
  if (snapshot->got_subcommand("verify")) return SnapshotCommand{raw.verify};
  if (snapshot->got_subcommand("inspect")) return SnapshotCommand{raw.inspect};
  if (snapshot->got_subcommand("diff")) return SnapshotCommand{raw.diff};
  if (snapshot->got_subcommand("import")) return SnapshotCommand{raw.from_python};
  const ExportSnapshot& to_python = raw.to_python;
  const bool has_weights_alone = to_python.weights_only || to_python.to.ends_with(".safetensors");
  if (!to_python.prefix.empty() && !has_weights_alone) {
    return invalid_argument("--prefix needs --weights-only or a file *.safetensors");
  }
  return SnapshotCommand{to_python};
}

}  // namespace ddprun
