#include "trainer/core/crc32.hpp"

#include <array>
#include <cstddef>

namespace ddprun {
namespace {

constexpr std::uint32_t kZlib = 0xedb8'8320;
constexpr std::uint32_t kCastagnoli = 0x82f6'3b78;
constexpr std::uint32_t kByte = 0xff;

using Table = std::array<std::uint32_t, 256>;

constexpr Table make_table(std::uint32_t polynomial) {
  Table table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? polynomial : 0);
    }
    table.at(byte) = rest;
  }
  return table;
}

constexpr Table kZlibTable = make_table(kZlib);
constexpr Table kCastagnoliTable = make_table(kCastagnoli);

std::uint32_t check(const Table& table, std::string_view bytes, std::uint32_t before) {
  std::uint32_t rest = ~before;
  for (const char letter : bytes) {
    rest = (rest >> 8U) ^ table.at((rest ^ static_cast<unsigned char>(letter)) & kByte);
  }
  return ~rest;
}

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  return check(kZlibTable, bytes, before);
}

std::uint32_t crc32c(std::string_view bytes) {
  return check(kCastagnoliTable, bytes, 0);
}

}  // namespace ddprun
