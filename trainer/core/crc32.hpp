#pragma once

// Cyclic redundancy checks of 32 bits, reflected, as two file formats have them. Byte by byte: what
// is checked here is a few hundred bytes per step.

#include <cstdint>
#include <string_view>

namespace ddprun {

/// CRC-32 of zlib and Ethernet (polynomial edb88320). `before` is the CRC of what stands in front
/// of `bytes`. crc32("123456789") is cbf43926.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

/// CRC-32C of iSCSI (RFC 3720, polynomial 82f63b78). crc32c("123456789") is e3069283.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace ddprun
