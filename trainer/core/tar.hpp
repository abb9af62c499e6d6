#pragma once

// The headers of a tar archive: ustar (POSIX.1-1988) with pax records and GNU's long names.
// data/tar_index.cpp uses them to read a file.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kTarBlockBytes = 512;

/// The content of one header block.
struct TarHeader {
  enum class Kind : std::uint8_t {
    kFile,
    kDirectory,
    kLongName,  // its content is the path of the next entry: GNU
    kPax,       // its content is records about the next entry
    kOther,     // a link, a device, a global pax header
    kEnd,       // a block of zeros
  };

  Kind kind = Kind::kEnd;
  std::string path;
  std::int64_t bytes = 0;  // of content, in the following blocks of 512
};

/// Fails with kCorrupt if the checksum is wrong or the size is not a number.
/// REQUIRES: block.size() == kTarBlockBytes.
Result<TarHeader> parse_tar_header(std::string_view block);

/// The values in pax records about the next entry that matter here.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::int64_t> bytes;
};

/// Fails with kCorrupt if the length of a record is wrong.
Result<PaxRecords> parse_pax_records(std::string_view text);

/// The number of bytes that the content of an entry takes in the archive.
constexpr std::int64_t padded_to_blocks(std::int64_t bytes) {
  constexpr auto kBlock = static_cast<std::int64_t>(kTarBlockBytes);
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace ddprun
