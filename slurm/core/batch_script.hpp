#pragma once

// What becomes of a batch script, and of what stands around it, so that its job runs the code of a
// commit, and finds the folders that Slurm does not make.

#include "base/error.hpp"
#include "slurm/core/sbatch_command.hpp"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where the code of a commit lies for the job.
struct CommittedCode {
  std::string commit;
  std::string root;    // absolute: the commit's files, unpacked
  std::string folder;  // below root, where the job begins; empty: in root
};

/// The script with a few lines before its first command: the job then runs in `code`, and finds
/// GIT_COMMIT and DDPRUN_CODE. Fails with kInvalidArgument where it is no shell script, or says
/// itself where it runs.
Result<std::string> with_code(std::string_view script, const CommittedCode& code);

/// The script that `sbatch --wrap` makes of a command.
std::string wrapped(std::string_view command);

/// The variables of sbatch that have a word in it.
inline constexpr std::array kOutputVariables{
    "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_JOB_NAME", "SBATCH_ARRAY_INX", "SBATCH_WAIT"};

/// What decides where the output of a job goes, and how it is called.
struct OutputSources {
  SbatchCommand typed;                             // wins over
  std::map<std::string, std::string> environment;  // those of kOutputVariables, over
  SbatchCommand lines;                             // the script's own
  std::string script_name;                         // without its folder; empty: --wrap
  std::string user;
};

/// A folder of --output or --error, as it is given: absolute, or from where sbatch is called.
struct OutputFolder {
  std::vector<std::string> parts;  // the job's id stands between them; at least one

  bool needs_id() const { return parts.size() > 1; }
  std::string with_id(std::string_view id) const;
};

/// Those that Slurm does not make. Fails with kInvalidArgument where the name of one is known only
/// when the job runs, or where it has the job's id and other options keep us from making it in
/// time.
Result<std::vector<OutputFolder>> output_folders(const OutputSources& sources);

/// Fails with kInvalidArgument where the options say another place for the job than its code.
Result<void> check_place(const SbatchCommand& options);

/// `word` as one word of a shell's.
std::string shell_quoted(std::string_view word);

}  // namespace ddprun
