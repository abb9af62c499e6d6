#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/descriptor.hpp"

#include <string>

namespace ddprun {

/// A file in memory that workers can read by its path: empty until the notice comes, so that a
/// program without signal handlers can look instead. It is gone when this process is.
class NoticeFile {
 public:
  /// Where the kernel has no such files, there is none.
  NoticeFile();

  /// Empty: there is none.
  const std::string& path() const { return path_; }

  /// Writes what a notice by `signal` means. The first one stays.
  void write(int signal, const NoticePlan& plan);

 private:
  Descriptor file_;
  std::string path_;
  bool has_told_ = false;
};

}  // namespace ddprun
