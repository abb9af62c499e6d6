#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// The file that rank 0 appends its records to, one line each, written at once: a record that was
/// reported is in the file even if the process is killed next. Without a path it takes everything
/// and writes nothing.
class MetricsFile {
 public:
  MetricsFile() = default;

  /// Opens `path` for appending; a FIFO works too. Fails with kIo or kNotFound.
  static Result<MetricsFile> open(const std::string& path);

  /// Fails with kIo, e.g. when the disk is full.
  Result<void> write(std::string_view record);

 private:
  MetricsFile(Descriptor file, std::string path);

  Descriptor file_;
  std::string path_;
};

}  // namespace ddprun
