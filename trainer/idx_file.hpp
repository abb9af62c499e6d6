#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace ddprun {

/// No data file is larger than this, inflated.
inline constexpr std::size_t kDataFileBytesMax = std::size_t{4} << 30U;

/// The content of a data file; one whose name ends in ".gz" is inflated.
///
/// A copy of our own: were the file mapped instead, whoever cuts it off or writes into it later
/// would end training with SIGBUS, or change its result. Fails with kNotFound or kIo; with kCorrupt
/// when a ".gz" is no gzip data, cut off or damaged; with kLimit above kDataFileBytesMax.
Result<std::string> read_data_file(const std::filesystem::path& path);

/// The first of `stem` and `stem`.gz that lies in `directory`; plain files come first because they
/// need no inflating. Fails with kNotFound, naming both.
Result<std::filesystem::path> find_data_file(
    const std::filesystem::path& directory, const std::string& stem);

}  // namespace ddprun
