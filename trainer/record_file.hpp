#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// A file to which records are appended, one line each, written immediately: a reported record is
/// in the file even if the process is killed next. Several processes of one machine may share it.
/// Without a path it accepts everything and writes nothing.
class RecordFile {
 public:
  RecordFile() = default;

  /// Opens `path` for appending; a FIFO works too. Fails with kIo or kNotFound.
  static Result<RecordFile> open(const std::string& path);

  /// Fails with kIo, for example if the disk is full.
  Result<void> write(std::string_view record);

 private:
  RecordFile(Descriptor file, std::string path);

  Descriptor file_;
  std::string path_;
};

}  // namespace ddprun
