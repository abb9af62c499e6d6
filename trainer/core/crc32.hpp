#pragma once

// Cyclic redundancy checks of 32 bits, reflected, of two file formats. Computed byte by byte: only
// a few hundred bytes per step are checked.

#include <cstdint>
#include <string_view>

namespace ddprun {

/// CRC-32 of zlib and Ethernet (polynomial edb88320). `before` is the CRC of the bytes that precede
/// `bytes`. crc32("123456789") is cbf43926.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

/// CRC-32C of iSCSI (RFC 3720, polynomial 82f63b78). crc32c("123456789") is e3069283.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace ddprun
