#pragma once

// A small file for each job of a user on a host, so that `ddpctl status` can list them: in
// $XDG_RUNTIME_DIR/ddprun, else in ddprun-<uid> in the temporary directory. The next job in the
// same PID namespace removes files whose process has ended, as after kill -9.

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct JobFile {
  std::string job;       // its id
  std::string address;   // "HOST:PORT" that answers `ddpctl status`
  std::string command;   // as typed
  std::int64_t pid = 0;  // of the agent
  bool operator==(const JobFile&) const = default;
};

/// Of this user, on this host, by the environment.
std::filesystem::path job_files_directory();

/// The jobs whose agent is alive, by pid. Fails with kIo if the directory exists and other users
/// can write there.
Result<std::vector<JobFile>> read_job_files(const std::filesystem::path& directory);

/// The file of one job. Touches the disk.
class OwnJobFile {
 public:
  /// Writes or replaces it, unless the last call wrote the same, and removes files that killed
  /// agents left. `file.pid` is this process. Fails with kIo, also if other users can write to the
  /// directory.
  Result<void> write(const std::filesystem::path& directory, const JobFile& file);

  /// Removes it, and the directory if it was the last.
  void remove();

 private:
  std::filesystem::path path_;  // empty: not written yet
  JobFile written_;
};

}  // namespace ddprun
