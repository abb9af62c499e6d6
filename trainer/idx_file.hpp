#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace ddprun {

/// The maximum size of a data file after decompression.
inline constexpr std::size_t kDataFileBytesMax = std::size_t{4} << 30U;

/// The content of a data file; a file whose name ends in ".gz" is decompressed.
///
/// Reads a copy: if the file were mapped, a process that truncates or changes it later would end
/// training with SIGBUS, or change its result. Fails with kNotFound or kIo; with kCorrupt if a
/// ".gz" is not gzip data, truncated or damaged; with kLimit above kDataFileBytesMax.
Result<std::string> read_data_file(const std::filesystem::path& path);

/// The first of `stem` and `stem`.gz that exists in `directory`; a plain file is preferred because
/// it needs no decompression. Fails with kNotFound, naming both.
Result<std::filesystem::path> find_data_file(
    const std::filesystem::path& directory, const std::string& stem);

}  // namespace ddprun
