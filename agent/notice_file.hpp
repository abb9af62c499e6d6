#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/descriptor.hpp"

#include <string>

namespace ddprun {

/// A file in memory that workers can read by its path. It is empty until the notice comes, so a
/// program without signal handlers can poll it. It vanishes with this process.
class NoticeFile {
 public:
  /// Has no file if the kernel does not support files in memory.
  NoticeFile();

  /// Its path; empty if there is none.
  const std::string& path() const { return path_; }

  /// Writes what a notice by `signal` means. Later calls change nothing.
  void write(int signal, const NoticePlan& plan);

 private:
  Descriptor file_;
  std::string path_;
  bool has_written_ = false;
};

}  // namespace ddprun
