#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace ddprun {

/// The content of a data file for as long as it lives: a plain file is mapped, so that nothing is
/// read before it is used and all ranks share the pages; a file whose name ends in ".gz" is
/// inflated.
class FileBytes {
 public:
  /// No data file is larger than this, inflated.
  static constexpr std::size_t kBytesMax = std::size_t{4} << 30U;

  /// Fails with kNotFound or kIo; with kCorrupt when a ".gz" is no gzip data, cut off or damaged;
  /// with kLimit above kBytesMax.
  static Result<std::unique_ptr<FileBytes>> open(const std::filesystem::path& path);

  virtual ~FileBytes() = default;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  virtual std::span<const std::byte> bytes() const = 0;

 protected:
  FileBytes() = default;
};

/// The first of `stem` and `stem`.gz that lies in `directory`; plain files come first because they
/// need no inflating. Fails with kNotFound, naming both.
Result<std::filesystem::path> find_data_file(
    const std::filesystem::path& directory, const std::string& stem);

}  // namespace ddprun
