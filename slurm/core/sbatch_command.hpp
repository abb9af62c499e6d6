#pragma once

// The arguments of `sbatch`, parsed only as far as needed: where the options end, and the values of
// those that determine where a job runs and where its output goes. All others are passed to sbatch
// unchanged.

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct SbatchOption {
  std::string name;   // the long name if we know it (sbatch_command.cpp); else as given
  std::string value;  // empty: none
  std::vector<std::string>
      arguments;  // as they came; letters in one word: only the last option has it

  bool operator==(const SbatchOption&) const = default;
};

struct SbatchCommand {
  std::vector<SbatchOption> options;
  std::vector<std::string> rest;  // the script and its arguments

  /// The value of the last option with that name; null if there is none.
  const SbatchOption* find(std::string_view name) const;

  bool operator==(const SbatchCommand&) const = default;
};

/// Reads arguments as sbatch does: options first, up to the first argument that is not an option,
/// or "--". An unknown option takes a value, as most do: after '=', or the next argument. Fails
/// with kInvalidArgument if that argument is missing.
Result<SbatchCommand> parse_sbatch(const std::vector<std::string>& arguments);

/// The options in the #SBATCH lines of a script, which end at its first command. Fails with
/// kInvalidArgument, naming the line.
Result<SbatchCommand> parse_sbatch_lines(std::string_view script);

/// Where the first command of a script begins: after all lines that are blank or begin with '#'.
std::size_t first_command(std::string_view script);

}  // namespace ddprun
