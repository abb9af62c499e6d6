#include "launcher/ctl/submit/submit.hpp"

#include "agent/run_program.hpp"
#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/submit/committed_code.hpp"
#include "launcher/ctl/submit/scratch_directory.hpp"
#include "slurm/core/batch_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <pwd.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOutputBytesMax = 1UL << 20U;  // of Slurm's programs
constexpr const char* kShelf = "ddprun-code";        // in the repository's own directory

int refuse(const std::string& why) {
  report("not submitted: {}", why);
  return kExitRefused;
}

/// The script to submit, and its name for messages; "wrap" is Slurm's name for a --wrap command.
struct Script {
  std::string name = "wrap";
  std::string text;
};

Result<Script> script_of(const Checkout& here, const SbatchCommand& sbatch) {
  if (const auto* const wrap = sbatch.find("wrap")) return Script{.text = wrapped(wrap->value)};
  const std::string& name = sbatch.rest.front();
  auto text = read_script(here, name);
  if (!text) return with_context("SCRIPT", text.error());
  return Script{.name = fs::path(name).filename(), .text = *std::move(text)};
}

Result<std::vector<OutputFolder>> folders_of(const SbatchCommand& sbatch, const Script& script) {
  auto lines = parse_sbatch_lines(script.text);
  if (!lines) return lines.error();
  OutputSources sources{
      .typed = sbatch,
      .environment = {},
      .lines = *std::move(lines),
      .script_name = script.name,
      .user = {}};
  for (const char* const name : kOutputVariables) {
    const char* const value = std::getenv(name);
    if (value != nullptr) sources.environment[name] = value;
  }
  const passwd* const user = ::getpwuid(::geteuid());
  sources.user = user == nullptr ? std::to_string(::geteuid()) : user->pw_name;
  return output_folders(sources);
}

/// Creates the folders whose names are complete, or, with the job's `id`, the others.
Result<void> make_folders(
    const std::vector<OutputFolder>& folders, const std::optional<std::string>& id) {
  for (const OutputFolder& folder : folders) {
    if (folder.needs_id() != id.has_value()) continue;
    const std::string path = folder.with_id(id.value_or(""));
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
      return with_context("the directory of --output", make_errno_error(error.value(), path));
    }
  }
  return {};
}

/// The call of sbatch for a script that lies at `path`, with `more` options before the others.
std::vector<std::string> sbatch_command(
    const SbatchCommand& sbatch,
    const std::string& path,
    const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"sbatch"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  for (const SbatchOption& option : sbatch.options) {
    if (option.name == "wrap") continue;
    arguments.insert(arguments.end(), option.arguments.begin(), option.arguments.end());
  }
  arguments.push_back(path);
  if (sbatch.rest.size() > 1)
    arguments.insert(arguments.end(), sbatch.rest.begin() + 1, sbatch.rest.end());
  return arguments;
}

Result<int> show(
    const SubmitOptions& options, const Script& script, const std::vector<OutputFolder>& folders) {
  std::string command;
  for (const std::string& argument : sbatch_command(options.sbatch, script.name)) {
    command += ' ' + shell_quoted(argument);
  }
  for (const OutputFolder& folder : folders) {
    report("would create {}", folder.with_id("<job id>"));
  }
  report("would call{} with this script:", command);
  const auto shown = write_stdout(script.text);
  if (!shown) return shown.error();
  return kExitOk;
}

/// The output of `sbatch --parsable`: the job's id, and after a semicolon its cluster, if there are
/// several.
struct Submitted {
  std::string id;
  std::string cluster;
};

Submitted submitted_of(const std::string& printed) {
  const std::string line(trim(printed));
  const std::size_t end = std::min(line.find(';'), line.size());
  return {.id = line.substr(0, end), .cluster = line.substr(std::min(end + 1, line.size()))};
}

/// Prints what sbatch itself would print.
Result<void> pass_on(const Submitted& job, bool is_parsable) {
  if (is_parsable) {
    const std::string suffix = job.cluster.empty() ? "" : ';' + job.cluster;
    return write_stdout(fmt::format("{}{}\n", job.id, suffix));
  }
  const std::string suffix = job.cluster.empty() ? "" : " on cluster " + job.cluster;
  return write_stdout(fmt::format("Submitted batch job {}{}\n", job.id, suffix));
}

/// Releases a held job.
Result<void> release(const Submitted& job) {
  std::vector<std::string> command{"scontrol"};
  if (!job.cluster.empty()) command.insert(command.end(), {"-M", job.cluster});
  command.insert(command.end(), {"release", job.id});
  const auto ended = run_program(request_for(command), kNever, kOutputBytesMax);
  if (!ended) return ended.error();
  if (ended->end.ok()) return {};
  return format_error(Errc::kIo, "scontrol release {}: {}", job.id, trim(ended->out + ended->err));
}

/// Submits a held job, and releases it after creating the folders whose names contain its id.
Result<int> submit_held(
    const SbatchCommand& sbatch,
    const SbatchCommand& lines,
    const std::string& path,
    const std::vector<std::string>& settings,
    const std::vector<OutputFolder>& folders) {
  const auto command = sbatch_command(sbatch, path, {"--hold", "--parsable"});
  const auto ended = run_program(request_for(command, settings), kNever, kOutputBytesMax);
  if (!ended) return ended.error();
  report_lines(ended->err);
  if (!ended->end.ok()) return ended->end.exit_status();
  const Submitted job = submitted_of(ended->out);
  const auto has = [&](const char* option) {
    return sbatch.find(option) != nullptr || lines.find(option) != nullptr;
  };
  const auto shown = pass_on(job, has("parsable"));
  Result<void> done = make_folders(folders, job.id);
  if (done && !has("hold")) done = release(job);
  if (done) return shown ? Result<int>(kExitOk) : shown.error();
  return format_error(
      Errc::kIo,
      "job {0} was submitted and is held: {1}; correct this, then run 'scontrol "
      "release {0}'",
      job.id,
      done.error().detail);
}

/// sbatch reads the script from a file of the same name, so Slurm's lists show that name.
Result<int> call_sbatch(
    const SbatchCommand& sbatch,
    const Script& script,
    const std::string& commit,
    const std::vector<OutputFolder>& folders) {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) return format_error(Errc::kIo, "TMPDIR: {}", error.message());
  const auto folder = ScratchDirectory::make(temporary, "ddprun_submit_");
  if (!folder) return folder.error();
  const fs::path path = folder->path() / script.name;
  if (const auto written = replace_file(path, script.text); !written) return written.error();
  const std::vector<std::string> settings{"GIT_COMMIT=" + commit};
  const auto lines = parse_sbatch_lines(script.text);
  if (!lines) return lines.error();
  const bool only_tests =
      sbatch.find("test-only") != nullptr || lines->find("test-only") != nullptr;
  if (!only_tests && std::ranges::any_of(folders, &OutputFolder::needs_id)) {
    return submit_held(sbatch, *lines, path.string(), settings, folders);
  }
  const auto ended =
      run_in_foreground(request_for(sbatch_command(sbatch, path.string()), settings));
  if (!ended) return ended.error();
  return ended->exit_status();
}

Result<int> submit_from(const Checkout& here, const SubmitOptions& options) {
  auto script = script_of(here, options.sbatch);
  if (!script) return script.error();
  std::error_code error;
  const fs::path shelf =
      options.code_dir.empty() ? here.git / kShelf : fs::absolute(options.code_dir, error);
  const CommittedCode code{
      .commit = here.tree.commit,
      .root = (shelf / here.tree.commit).string(),
      .folder = here.folder};
  const auto folders = folders_of(options.sbatch, *script);
  if (!folders) return folders.error();
  auto text = with_code(script->text, code);
  if (!text) return with_context(fmt::format("SCRIPT '{}'", script->name), text.error());
  script->text = *std::move(text);
  if (options.dry_run) return show(options, *script, *folders);

  if (const auto unpacked = unpack_commit(here, shelf); !unpacked) return unpacked.error();
  if (const auto made = make_folders(*folders, std::nullopt); !made) return made.error();
  return call_sbatch(options.sbatch, *script, code.commit, *folders);
}

Result<int> submit_from_here(const SubmitOptions& options) {
  const auto here = find_checkout();
  if (!here && here.error().is(Errc::kProtocol)) {
    return refuse(fmt::format(
        "{}; a job runs committed code: run this in a git work tree", here.error().detail));
  }
  if (!here) return here.error();
  if (const std::string why = why_not(*here); !why.empty()) return refuse(why);
  return submit_from(*here, options);
}

}  // namespace

Result<int> submit(const SubmitOptions& options) {
  auto ended = submit_from_here(options);
  if (ended || !ended.error().is(Errc::kNotFound)) return ended;
  report("{}", ended.error().detail);
  return kExitNotFound;
}

}  // namespace ddprun
