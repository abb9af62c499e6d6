#pragma once

// Changes a batch script so that its job runs the code of a commit, and finds the output folders
// that Slurm does not create.

#include "base/error.hpp"
#include "slurm/core/sbatch_command.hpp"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where the job finds the code of a commit.
struct CommittedCode {
  std::string commit;
  std::string root;    // absolute: the commit's files, unpacked
  std::string folder;  // below root, where the job starts; empty: in root
};

/// The script with a few lines before its first command: the job then runs in `code`, and has
/// GIT_COMMIT and DDPRUN_CODE. Fails with kInvalidArgument if it is not a shell script, or sets its
/// own working directory.
Result<std::string> with_code(std::string_view script, const CommittedCode& code);

/// The script that `sbatch --wrap` makes of a command.
std::string wrapped(std::string_view command);

/// The variables of sbatch that affect the output.
inline constexpr std::array kOutputVariables{
    "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_JOB_NAME", "SBATCH_ARRAY_INX", "SBATCH_WAIT"};

/// What determines the output files of a job, in order of precedence.
struct OutputSources {
  SbatchCommand typed;                             // the command line
  std::map<std::string, std::string> environment;  // those of kOutputVariables
  SbatchCommand lines;                             // #SBATCH lines of the script
  std::string script_name;                         // without its folder; empty: --wrap
  std::string user;
};

/// A folder of --output or --error as given: absolute, or relative to where sbatch is called.
struct OutputFolder {
  std::vector<std::string> parts;  // with the job's id between them; at least one

  bool needs_id() const { return parts.size() > 1; }
  std::string with_id(std::string_view id) const;
};

/// The folders to create. Fails with kInvalidArgument if the name of one is known only when
/// the job runs, or if it contains the job's id and other options keep us from creating it in
/// time.
Result<std::vector<OutputFolder>> output_folders(const OutputSources& sources);

/// Fails with kInvalidArgument if the options give the job another working directory than its code.
Result<void> check_place(const SbatchCommand& options);

/// `word` quoted as one word of a shell command.
std::string shell_quoted(std::string_view word);

}  // namespace ddprun
