#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A file or directory in a tar archive.
struct TarEntry {
  std::string path;  // without a leading "./" or a trailing "/"
  bool is_directory = false;
  std::int64_t offset = 0;  // of its content in the file with the archive
  std::int64_t bytes = 0;
};

/// A part of a file.
struct FilePart {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// The entries of the uncompressed tar archive in `part` of `descriptor`; reads only its headers.
/// Fails with kCorrupt if a header is damaged or content extends beyond the end; with kIo, and with
/// kLimit above 100 million entries.
Result<std::vector<TarEntry>> list_tar(int descriptor, const FilePart& part);

/// The same for an archive in memory.
Result<std::vector<TarEntry>> list_tar(std::string_view archive);

/// All bytes of `part`. Fails with kIo, or with kCorrupt if the file ends earlier.
Result<std::string> read_part(int descriptor, const FilePart& part);

}  // namespace ddprun
