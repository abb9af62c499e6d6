#pragma once

// A small file for each job of a user on a host, so that `ddpctl status` can name them: in
// $XDG_RUNTIME_DIR/ddprun, else in ddprun-<uid> in the temporary directory. One that is left by an
// agent that was killed is told from the others by the process that it names, and removed by the
// next job in the same PID namespace; in another one its number means nothing.

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct JobFile {
  std::string job;       // its id
  std::string address;   // "HOST:PORT" where `ddpctl status` may ask
  std::string command;   // as typed
  std::int64_t pid = 0;  // of the agent
  bool operator==(const JobFile&) const = default;
};

/// Of this user, on this host, by the environment.
std::filesystem::path job_files_directory();

/// The jobs whose agent lives, by their pids. Fails with kIo if the directory is there, and is not
/// this user's alone.
Result<std::vector<JobFile>> read_job_files(const std::filesystem::path& directory);

/// The file of one job. Touches the disk.
class OwnJobFile {
 public:
  /// Writes it, or replaces it, and removes those that were left there; nothing where the last
  /// call wrote the same. `file.pid` is this process.
  /// Fails with kIo, also if the directory is not this user's alone.
  Result<void> write(const std::filesystem::path& directory, const JobFile& file);

  /// Removes it, and the directory if it was the last.
  void remove();

 private:
  std::filesystem::path path_;  // empty: not written yet
  JobFile written_;
};

}  // namespace ddprun
