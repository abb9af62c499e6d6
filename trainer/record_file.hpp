#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// A file that records are appended to, one line each, written at once: a record that was reported
/// is in the file even if the process is killed next. Several processes of one machine may share
/// it. Without a path it takes everything and writes nothing.
class RecordFile {
 public:
  RecordFile() = default;

  /// Opens `path` for appending; a FIFO works too. Fails with kIo or kNotFound.
  static Result<RecordFile> open(const std::string& path);

  /// Fails with kIo, e.g. when the disk is full.
  Result<void> write(std::string_view record);

 private:
  RecordFile(Descriptor file, std::string path);

  Descriptor file_;
  std::string path_;
};

}  // namespace ddprun
