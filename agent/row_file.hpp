#pragma once

// A table on disk that grows by whole rows, across restarts of the job and even if the disk is full
// now and then. Its calls may block: use it on a separate thread.

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string_view>

namespace ddprun {

class RowFile {
 public:
  /// Creates the file and its directories if they are missing; an empty file gets `header`. Fails
  /// with kIo or kNotFound, naming the path, also if another process has it open as a RowFile.
  static Result<RowFile> open(std::filesystem::path path, std::string_view header);

  /// Appends all of `rows` or none. Fails with kIo, naming the path.
  Result<void> append(std::string_view rows);

 private:
  RowFile(Descriptor file, std::filesystem::path path);

  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace ddprun
