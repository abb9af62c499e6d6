#include "launcher/ctl/snapshot/options.hpp"

#include "base/flag_checks.hpp"

#include <CLI/CLI.hpp>

namespace ddprun {

namespace {

void add_import(CLI::App& snapshot, ImportSnapshot& raw) {
  constexpr std::int64_t kCountMax = 1'000'000'000;
  CLI::App* const from_python =
      snapshot.add_subcommand("import", "Make a snapshot of a file of Python's");
  from_python->add_option("FILE", raw.path, "Of torch.save(), or safetensors")
      ->required()
      ->check(not_empty());
  from_python
      ->add_option("--to", raw.to, "A new directory, for ddptrain --snapshot-dir or --resume")
      ->required()
      ->check(not_empty());
  from_python->add_option("--epoch", raw.epoch, "The one to go on with; else as the file tells")
      ->transform(count(0, kCountMax));
  from_python->add_option("--step", raw.step, "Updates made so far; else as the file tells")
      ->transform(count(0, kCountMax));
  from_python->add_flag("--weights-only", raw.weights_only, "Leave the optimizer's state out");
}

}  // namespace

void add_snapshot(CLI::App& app, RawSnapshot& raw) {
  CLI::App* const snapshot =
      app.add_subcommand("snapshot", "What ddptrain has saved: look at it, hand it on");
  snapshot->require_subcommand(1);
  constexpr char kSnapshot[] = "A snapshot, or a directory of them: the newest one";
  constexpr char kBest[] = "Of a directory the best one, as ddptrain --keep-best has kept it";

  CLI::App* const ls = snapshot->add_subcommand("ls", "List the snapshots of a directory");
  ls->add_option("DIR", raw.ls.directory, "The --snapshot-dir")->required()->check(not_empty());
  ls->add_flag("--json", raw.ls.json, "Print one JSON array");

  CLI::App* const verify = snapshot->add_subcommand("verify", "Check every byte");
  verify->add_option("PATH", raw.verify.path, "A snapshot, or a directory of them: all")
      ->required()
      ->check(not_empty());

  CLI::App* const inspect = snapshot->add_subcommand("inspect", "Tell all that is in a snapshot");
  inspect->add_option("SNAPSHOT", raw.inspect.path, kSnapshot)->required()->check(not_empty());
  inspect->add_flag("--best", raw.inspect.best, kBest);
  inspect->add_flag("--json", raw.inspect.json, "Print one JSON object");

  CLI::App* const diff =
      snapshot->add_subcommand("diff", "Tell where two snapshots or files of weights differ");
  diff->add_option("A", raw.diff.left, kSnapshot)->required()->check(not_empty());
  diff->add_option("B", raw.diff.right, "The other")->required()->check(not_empty());

  CLI::App* const to_python = snapshot->add_subcommand("export", "Write a file for Python");
  to_python->add_option("SNAPSHOT", raw.to_python.path, kSnapshot)->required()->check(not_empty());
  to_python
      ->add_option("--to", raw.to_python.to, "FILE.safetensors, or another name for torch.load()")
      ->required()
      ->check(not_empty());
  to_python->add_flag("--best", raw.to_python.best, kBest);
  to_python->add_flag("--weights-only", raw.to_python.weights_only, "A bare state dict");
  to_python->add_option(
      "--prefix", raw.to_python.prefix, "Put this before each name, such as 'module.'");
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
    return make_error(
        Errc::kInvalidArgument, "--prefix goes with --weights-only or a file *.safetensors");
  }
  return SnapshotCommand{to_python};
}

}  // namespace ddprun
