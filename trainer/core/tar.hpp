#pragma once

// The headers of a tar archive: ustar (POSIX.1-1988) with pax records and GNU's long names.
// data/tar_index.cpp walks a file with them.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kTarBlockBytes = 512;

/// What one header block announces.
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
  std::int64_t bytes = 0;  // of content, which follows in blocks of 512
};

/// Fails with kCorrupt where the checksum is another one, or the size no number.
/// REQUIRES: block.size() == kTarBlockBytes.
Result<TarHeader> parse_tar_header(std::string_view block);

/// What pax records say of the next entry, as far as it matters here.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::int64_t> bytes;
};

/// Fails with kCorrupt where a record's length is wrong.
Result<PaxRecords> parse_pax_records(std::string_view text);

/// How many bytes the content of an entry takes in the archive.
constexpr std::int64_t padded_to_blocks(std::int64_t bytes) {
  constexpr auto kBlock = static_cast<std::int64_t>(kTarBlockBytes);
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace ddprun
