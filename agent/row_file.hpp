#pragma once

// A table on disk that grows by whole rows, also across restarts of the job and on a disk that is
// full now and then. What may block blocks: for a thread of its own.

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <filesystem>
#include <string_view>

namespace ddprun {

class RowFile {
 public:
  /// Makes what is missing of file and directories; a file that is empty gets `header`. Fails with
  /// kIo or kNotFound, naming the path, and where another process has it open as a RowFile.
  static Result<RowFile> open(std::filesystem::path path, std::string_view header);

  /// All of `rows` or none. Fails with kIo, naming the path.
  Result<void> append(std::string_view rows);

 private:
  RowFile(Descriptor file, std::filesystem::path path);

  Descriptor file_;
  std::filesystem::path path_;
};

}  // namespace ddprun
