#include "trainer/core/tar.hpp"

#include "base/check.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

struct Field {
  std::size_t at;
  std::size_t bytes;
};
constexpr Field kName{.at = 0, .bytes = 100};
constexpr Field kSize{.at = 124, .bytes = 12};
constexpr Field kChecksum{.at = 148, .bytes = 8};
constexpr std::size_t kType = 156;
constexpr Field kMagic{.at = 257, .bytes = 5};
constexpr Field kPrefix{.at = 345, .bytes = 155};

/// Larger entries are treated as corruption.
constexpr std::int64_t kEntryBytesMax = std::int64_t{1} << 50U;

/// A field up to its first NUL.
std::string_view text_of(std::string_view block, Field field) {
  const std::string_view text = block.substr(field.at, field.bytes);
  return text.substr(0, text.find('\0'));
}

/// Octal digits, or GNU's big-endian number after a first byte of 0x80.
std::optional<std::int64_t> number_of(std::string_view block, Field field) {
  const std::string_view bytes = block.substr(field.at, field.bytes);
  if (static_cast<unsigned char>(bytes[0]) == 0x80U) {
    std::uint64_t value = 0;
    for (const char byte : bytes.substr(4)) {
      value = value << 8U | static_cast<unsigned char>(byte);
    }
    if (value > static_cast<std::uint64_t>(kEntryBytesMax)) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  const std::string_view digits = trim(text_of(block, field));
  std::int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 8);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

/// The sum of all bytes, with those of the checksum counted as blanks.
std::int64_t sum_of(std::string_view block) {
  std::int64_t sum = static_cast<std::int64_t>(kChecksum.bytes) * ' ';
  for (std::size_t at = 0; at < block.size(); ++at) {
    const bool is_checksum = at >= kChecksum.at && at < kChecksum.at + kChecksum.bytes;
    if (!is_checksum) sum += static_cast<unsigned char>(block[at]);
  }
  return sum;
}

TarHeader::Kind kind_of(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':
      return TarHeader::Kind::kFile;
    case '5':
      return TarHeader::Kind::kDirectory;
    case 'L':
      return TarHeader::Kind::kLongName;
    case 'x':
      return TarHeader::Kind::kPax;
    default:
      return TarHeader::Kind::kOther;
  }
}

}  // namespace

Result<TarHeader> parse_tar_header(std::string_view block) {
  DDPRUN_CHECK(block.size() == kTarBlockBytes);
  TarHeader header;
  if (std::ranges::all_of(block, [](char byte) { return byte == '\0'; })) return header;
  if (number_of(block, kChecksum) != sum_of(block)) {
    return make_error(
        Errc::kCorrupt, "not a tar archive, or damaged: a header's checksum is wrong");
  }
  const auto bytes = number_of(block, kSize);
  if (!bytes || *bytes > kEntryBytesMax) {
    return make_error(Errc::kCorrupt, "damaged tar archive: the size of an entry is not a number");
  }
  header.kind = kind_of(block[kType]);
  header.bytes = *bytes;
  header.path = text_of(block, kName);
  const std::string_view prefix = text_of(block, kPrefix);
  // GNU's own format, whose magic continues with a blank, has times in place of ustar's prefix.
  const bool is_ustar = block.substr(kMagic.at, kMagic.bytes + 1) == std::string_view("ustar\0", 6);
  if (is_ustar && !prefix.empty()) header.path = fmt::format("{}/{}", prefix, header.path);
  return header;
}

Result<PaxRecords> parse_pax_records(std::string_view text) {
  PaxRecords records;
  while (!text.empty() && text[0] != '\0') {
    const std::size_t blank = text.find(' ');
    const auto length = parse_int<std::size_t>(text.substr(0, blank));
    if (blank == std::string_view::npos || !length || *length <= blank + 1 ||
        *length > text.size()) {
      return make_error(Errc::kCorrupt, "damaged tar archive: a pax record's length is wrong");
    }
    std::string_view record = text.substr(blank + 1, *length - blank - 1);
    if (record.ends_with('\n')) record.remove_suffix(1);
    const std::size_t equals = record.find('=');
    if (equals != std::string_view::npos) {
      const std::string_view key = record.substr(0, equals);
      const std::string_view value = record.substr(equals + 1);
      if (key == "path") records.path = value;
      if (key == "size") records.bytes = parse_int<std::int64_t>(value);
    }
    text.remove_prefix(*length);
  }
  return records;
}

}  // namespace ddprun
