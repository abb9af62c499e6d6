#pragma once

// What was typed behind `sbatch`, taken apart only as far as we have to: where the options end, and
// what those say that decide where a job runs and where its output goes. Whatever else is there is
// sbatch's business, and is handed on as it came.

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct SbatchOption {
  std::string name;   // the long one of those that we know (sbatch_command.cpp); else as given
  std::string value;  // empty: none
  std::vector<std::string>
      arguments;  // as they came; letters in one word: only the last option has it

  bool operator==(const SbatchOption&) const = default;
};

struct SbatchCommand {
  std::vector<SbatchOption> options;
  std::vector<std::string> rest;  // the script and its arguments

  /// What the last option of that name says; none if there is none.
  const SbatchOption* find(std::string_view name) const;

  bool operator==(const SbatchCommand&) const = default;
};

/// Reads words as sbatch does: options first, up to the first word that is none, or to "--". An
/// option that we do not know takes a value, as most do: behind '=', or the next word. Fails with
/// kInvalidArgument where that word is missing.
Result<SbatchCommand> parse_sbatch(const std::vector<std::string>& arguments);

/// The options in the #SBATCH lines of a script, which end at its first command. Fails with
/// kInvalidArgument, naming the line.
Result<SbatchCommand> parse_sbatch_lines(std::string_view script);

/// Where the first command of a script begins: behind all lines that are blank or begin with '#'.
std::size_t first_command(std::string_view script);

}  // namespace ddprun
