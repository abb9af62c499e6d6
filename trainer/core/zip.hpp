#pragma once

// Zip archives with stored, uncompressed entries, as torch.save() writes them (PKWARE's
// APPNOTE.TXT; .ZIP64 beyond 4 GiB). Bytes in, values out: the values in an archive are checked
// before they are used, and no entry is copied, for reading or writing.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The content of each of our entries begins at a multiple of this, as in torch's files.
inline constexpr std::size_t kZipAlignment = 64;

/// The content of an entry: `text`, then `bytes`, which are borrowed.
struct ZipContent {
  std::string name;
  std::string text;
  std::span<const std::byte> bytes;
};

/// An archive in pieces: each head followed by the body with the same index, then the tail.
struct EncodedZip {
  std::vector<std::string> heads;
  std::vector<std::span<const std::byte>> bodies;  // as many
  std::string tail;

  std::size_t size() const;

  /// All pieces in order. The views point into this value and into the bodies.
  std::vector<std::span<const std::byte>> pieces() const;
};

/// Stores `contents` in this order. Sizes, offsets and counts of at least `zip64_from` are written
/// in 64 bits; a test lowers it. REQUIRES: names are unique and shorter than 64 KiB.
EncodedZip encode_zip(
    const std::vector<ZipContent>& contents, std::uint64_t zip64_from = 0xffff'ffff);

/// An entry of an archive; the bytes are part of the archive.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
};

/// The limits of decode_zip().
struct ZipLimits {
  std::size_t entries_max = 4'000'000;
  std::size_t name_bytes_max = 4'096;
};

/// The entries in the order of the directory, with all checksums verified. Fails with kCorrupt,
/// naming the entry, if it is compressed, encrypted, truncated or named twice, overlaps another, or
/// has a wrong CRC-32; with kLimit beyond `limits`.
Result<std::vector<ZipEntry>> decode_zip(std::span<const std::byte> file, ZipLimits limits = {});

}  // namespace ddprun
