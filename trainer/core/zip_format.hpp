#pragma once

// The constants of the zip format, shared by its writer and its reader.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ddprun::zip_format {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

inline constexpr std::uint32_t kLocalMark = 0x0403'4b50;
inline constexpr std::uint32_t kCentralMark = 0x0201'4b50;
inline constexpr std::uint32_t kEndMark = 0x0605'4b50;
inline constexpr std::uint32_t kEnd64Mark = 0x0606'4b50;
inline constexpr std::uint32_t kLocator64Mark = 0x0706'4b50;

inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kCentralBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kLocator64Bytes = 20;

inline constexpr std::uint16_t kExtra64 = 0x0001;       // the extra field of 64-bit numbers
inline constexpr std::uint16_t kExtraPadding = 0x4246;  // "FB", torch's
inline constexpr std::uint16_t kFlagEncrypted = 0x0001;
inline constexpr std::uint16_t kFlagUtf8 = 0x0800;
inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint32_t kFull32 = 0xffff'ffff;  // "see the 64-bit number"
inline constexpr std::uint16_t kFull16 = 0xffff;

}  // namespace ddprun::zip_format
