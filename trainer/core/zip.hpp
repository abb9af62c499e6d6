#pragma once

// Zip archives whose entries are stored and not compressed, as torch.save() writes them (PKWARE's
// APPNOTE.TXT; .ZIP64 beyond 4 GiB). Bytes in, values out: what an archive claims is checked before
// it is believed, and no entry is copied, neither to read nor to write it.

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where the content of each entry of ours begins: at a multiple of this, as in torch's files.
inline constexpr std::size_t kZipAlignment = 64;

/// What becomes an entry: `text`, then `bytes`, which are borrowed.
struct ZipContent {
  std::string name;
  std::string text;
  std::span<const std::byte> bytes;
};

/// An archive in pieces: each head, with the body of the same place behind it, then the tail.
struct EncodedZip {
  std::vector<std::string> heads;
  std::vector<std::span<const std::byte>> bodies;  // as many
  std::string tail;

  std::size_t size() const;

  /// All of it in order. The views point into this value and into the bodies.
  std::vector<std::span<const std::byte>> pieces() const;
};

/// Stores `contents` in this order. Sizes, offsets and counts from `zip64_from` on are written in
/// 64 bits; a test lowers it. REQUIRES: names differ and take less than 64 KiB.
EncodedZip encode_zip(
    const std::vector<ZipContent>& contents, std::uint64_t zip64_from = 0xffff'ffff);

/// An entry of an archive; the bytes are those of the archive.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
};

/// What decode_zip accepts at most.
struct ZipLimits {
  std::size_t entries_max = 4'000'000;
  std::size_t name_bytes_max = 4'096;
};

/// The entries in the order of the directory, all checksums compared. Fails with kCorrupt, naming
/// the entry, where it is compressed, encrypted, cut off or named twice, overlaps another or has
/// another CRC-32 than it claims; with kLimit beyond `limits`.
Result<std::vector<ZipEntry>> decode_zip(std::span<const std::byte> file, ZipLimits limits = {});

}  // namespace ddprun
