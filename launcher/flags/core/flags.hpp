#pragma once

// The flags of ddprun as one table, which drives the parser, --help and the test of the manual.
//
// The grammar is torchrun's without its traps. Options come first and end at the script: everything
// after the script belongs to it, byte for byte. Names take dashes or underscores and any
// unambiguous prefix. A flag that is not on the command line is looked up as PET_<NAME>.

#include "base/environment.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct Options;

/// The value of a flag and where it was given, for messages: "--nnodes" or "PET_NNODES".
struct Given {
  std::string text;
  std::string source;
};

/// One row of the table.
struct Flag {
  std::string_view group;    // the heading in --help
  std::string_view name;     // "nproc-per-node"
  char letter = 0;           // 'r' for -r; 0: none
  std::string_view value;    // what it takes, for --help; empty: a switch
  std::string_view initial;  // its default, for --help
  std::string_view help;
  bool has_variable = true;  // PET_<NAME>
  /// Stores the value, or says what is wrong with it, e.g. "expected a whole number from 0 on".
  /// Called for a switch only if it is on. Null for flags that print a text and exit.
  Result<void> (*apply)(const Given&, Options&) = nullptr;
  // Its name in Accelerate's launcher. Initialised: g++ warns of rows that leave it out otherwise.
  std::string_view alias = {};  // NOLINT(readability-redundant-member-init)
};

/// The rows of the table under one or two headings.
std::span<const Flag> job_flags();
std::span<const Flag> rendezvous_flags();
std::span<const Flag> failure_flags();
std::span<const Flag> output_flags();

/// The whole table, in the order of --help.
std::span<const Flag> all_flags();

/// The row with this name. REQUIRES: there is one.
const Flag& flag_named(std::string_view name);

/// "PET_NPROC_PER_NODE"; empty if the flag has none.
std::string variable_of(const Flag& flag);

/// What the command line selects.
enum class Action : std::uint8_t {
  kRun,
  kHelp,
  kVersion,
  kCompletion,
  kNothing,  // this task of a Slurm step is one more than the job has nodes
};

struct CommandLine {
  Action action = Action::kRun;
  std::map<std::string_view, Given> given;  // by name; switches that are on have "1"
  std::vector<std::string> rest;            // the script and its arguments
  std::string shell;                        // when action == kCompletion: "bash" or "zsh"
  bool has_others = false;  // the step has other nodes, so a rendezvous even for one
};

/// Reads argv[1..] and the PET_ variables. Fails with kInvalidArgument: an unknown flag (the
/// message names the nearest), an ambiguous prefix, a missing value, or a value for a switch.
Result<CommandLine> read_command_line(
    std::span<const std::string> arguments, const Environment& environment);

/// What --help prints: every flag, with its default and variable.
std::string help_text();

}  // namespace ddprun
