#include "slurm/core/batch_script.hpp"

#include "base/exit_status.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 6> kShells{"ash", "bash", "dash", "ksh", "sh", "zsh"};

/// "bash" for "#!/bin/bash -l" and "#!/usr/bin/env bash"; empty without such a line.
std::string_view interpreter_of(std::string_view script) {
  if (!script.starts_with("#!")) return {};
  std::string_view line = trim(script.substr(2, script.find('\n') - 2));
  for (;;) {
    const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view path = line.substr(0, blank);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    const std::string_view next = trim(line.substr(blank));
    if (name != "env" || next.empty()) return name;
    line = next;
  }
}

std::string variable_of(std::string_view name) {
  return name == "job-name" ? "SBATCH_JOB_NAME"
         : name == "output" ? "SBATCH_OUTPUT"
         : name == "error"  ? "SBATCH_ERROR"
         : name == "array"  ? "SBATCH_ARRAY_INX"
                            : "SBATCH_WAIT";
}

/// The effective value of an option; none: sbatch's default.
std::optional<std::string> effective(const OutputSources& sources, std::string_view name) {
  if (const auto* const option = sources.typed.find(name)) return option->value;
  const auto variable = sources.environment.find(variable_of(name));
  if (variable != sources.environment.end() && !variable->second.empty()) return variable->second;
  if (const auto* const option = sources.lines.find(name)) return option->value;
  return std::nullopt;
}

/// The folder of a file name pattern, with placeholders; empty: where the job starts.
Result<OutputFolder> folder_of(
    std::string_view pattern, const std::string& user, const std::string& job_name) {
  const std::string_view folder = pattern.substr(0, pattern.rfind('/') + 1);
  // A backslash turns all replacements off.
  const bool is_literal = pattern.find('\\') != std::string_view::npos;
  OutputFolder made{.parts = {""}};
  for (std::size_t at = 0; at < folder.size(); ++at) {
    if (folder[at] == '\\') continue;
    if (is_literal || folder[at] != '%') {
      made.parts.back() += folder[at];
      continue;
    }
    ++at;  // a '/' ends the folder, so another byte follows
    if (folder[at] == '%') {
      made.parts.back() += '%';
    } else if (folder[at] == 'u') {
      made.parts.back() += user;
    } else if (folder[at] == 'x') {
      made.parts.back() += job_name;
    } else if (folder[at] == 'j' || folder[at] == 'A') {
      made.parts.emplace_back();
    } else {
      return invalid_argument(
          "'{}': the name of the directory is known only when the job runs, and Slurm creates no "
          "directories, so the job would fail without output; put %{} after the last '/'",
          excerpt(pattern),
          folder[at]);
    }
  }
  return made;
}

/// The folder is created while the job is held, after sbatch has printed the id.
Result<void> check_id_is_told(std::string_view pattern, const OutputSources& sources) {
  const auto refuse = [pattern](std::string_view why) {
    return invalid_argument("'{}': {}; put the id after the last '/'", excerpt(pattern), why);
  };
  if (effective(sources, "array")) {
    return refuse("each element of --array has its own id, which is known only when it runs");
  }
  if (effective(sources, "wait")) {
    return refuse(
        "the job would be held until the directory with its id is created, and --wait would wait");
  }
  if (sources.typed.find("quiet") != nullptr || sources.lines.find("quiet") != nullptr) {
    return refuse("--quiet hides the job's id, which is part of the directory's name");
  }
  return {};
}

}  // namespace

Result<std::string> with_code(std::string_view script, const CommittedCode& code) {
  const std::string_view interpreter = interpreter_of(script);
  if (interpreter.empty())
    return invalid_argument("its first line is not '#!/bin/bash', or another shell");
  if (std::ranges::find(kShells, interpreter) == kShells.end()) {
    return invalid_argument(
        "it is for '{}', which is not a shell; call it from a bash script", excerpt(interpreter));
  }
  const auto lines = parse_sbatch_lines(script);
  if (!lines) return lines.error();
  if (const auto fits = check_place(*lines); !fits) return fits.error();

  const std::string place = code.folder.empty() ? code.root : code.root + '/' + code.folder;
  std::string made(script.substr(0, first_command(script)));
  if (!made.ends_with('\n')) made += '\n';
  made += fmt::format(
      "# Added by ddpctl submit: later edits do not affect this job.\n"
      "export GIT_COMMIT={} DDPRUN_CODE={}\n"
      "cd -- {} || exit {}\n\n",
      code.commit,
      shell_quoted(code.root),
      shell_quoted(place),
      kExitBadFile);
  made += script.substr(first_command(script));
  return made;
}

std::string wrapped(std::string_view command) {
  return fmt::format("#!/bin/sh\n{}\n", command);
}

std::string OutputFolder::with_id(std::string_view id) const {
  return fmt::format("{}", fmt::join(parts, id));
}

Result<std::vector<OutputFolder>> output_folders(const OutputSources& sources) {
  const std::string name =
      effective(sources, "job-name")
          .value_or(sources.script_name.empty() ? "wrap" : sources.script_name);
  std::vector<OutputFolder> folders;
  for (const std::string_view option : {"output", "error"}) {
    const auto pattern = effective(sources, option);
    if (!pattern) continue;
    auto folder = folder_of(*pattern, sources.user, name);
    if (!folder) return with_context(fmt::format("--{}", option), folder.error());
    if (folder->needs_id()) {
      if (const auto fits = check_id_is_told(*pattern, sources); !fits) {
        return with_context(fmt::format("--{}", option), fits.error());
      }
    }
    if (folder->needs_id() || !folder->parts.front().empty()) folders.push_back(*std::move(folder));
  }
  return folders;
}

Result<void> check_place(const SbatchCommand& options) {
  const auto* const place = options.find("chdir");
  if (place == nullptr) return {};
  return invalid_argument(
      "--chdir '{}': the job runs in the code of its commit; leave it out, and set output paths in "
      "the script",
      excerpt(place->value));
}

std::string shell_quoted(std::string_view word) {
  const auto is_plain = [](char byte) {
    constexpr std::string_view kPlain = "%+,-./:=@_";
    return std::isalnum(static_cast<unsigned char>(byte)) != 0 ||
           kPlain.find(byte) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string quoted = "'";
  for (const char byte : word) {
    if (byte == '\'') {
      quoted += "'\\''";
    } else {
      quoted += byte;
    }
  }
  return quoted + '\'';
}

}  // namespace ddprun
