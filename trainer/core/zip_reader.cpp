#include "trainer/core/corrupt.hpp"
#include "trainer/core/zip.hpp"
#include "trainer/core/zip_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <optional>
#include <set>

#include <zlib.h>

namespace ddprun {
namespace {

using namespace zip_format;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kCommentBytesMax = 0xffff;

Error bad_entry(std::string_view name, std::string_view why) {
  return corrupt(fmt::format("zip entry '{}': {}", name, why));
}

/// Reads bytes from the front; call has() before reading.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : rest_(bytes) {}

  bool has(std::size_t count) const { return rest_.size() >= count; }

  template <std::unsigned_integral T>
  T number() {
    T value = 0;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }

  Bytes bytes(std::size_t count) {
    const Bytes front = rest_.first(count);
    rest_ = rest_.subspan(count);
    return front;
  }

  void skip(std::size_t count) { rest_ = rest_.subspan(count); }

  std::string_view text(std::size_t count) {
    const Bytes front = bytes(count);
    return {reinterpret_cast<const char*>(front.data()), front.size()};  // NOLINT
  }

 private:
  Bytes rest_;
};

/// The position of the directory, and its number of entries.
struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

/// The position of the end record: the last one whose comment reaches the end of the file.
std::optional<std::size_t> find_end(Bytes file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const std::size_t last = file.size() - kEndBytes;
  const std::size_t first = last - std::min(last, kCommentBytesMax);
  for (std::size_t at = last + 1; at-- > first;) {
    Cursor end(file.subspan(at));
    if (end.number<std::uint32_t>() != kEndMark) continue;
    end.skip(kEndBytes - sizeof(std::uint32_t) - sizeof(std::uint16_t));
    if (end.number<std::uint16_t>() == file.size() - at - kEndBytes) return at;
  }
  return std::nullopt;
}

Result<Directory> read_end64(Bytes file, std::size_t end) {
  if (end < kLocator64Bytes) return corrupt("zip: the 64-bit end record is missing");
  Cursor locator(file.subspan(end - kLocator64Bytes));
  if (locator.number<std::uint32_t>() != kLocator64Mark) {
    return corrupt("zip: the 64-bit end record is missing");
  }
  locator.skip(sizeof(std::uint32_t));
  const auto at = locator.number<std::uint64_t>();
  const std::size_t before = end - kLocator64Bytes;
  if (before < kEnd64Bytes || at > before - kEnd64Bytes) {
    return corrupt("zip: the 64-bit end record is outside the file");
  }
  Cursor record(file.subspan(at));
  if (record.number<std::uint32_t>() != kEnd64Mark) {
    return corrupt("zip: the 64-bit end record is not at its given position");
  }
  record.skip(28);  // its size, versions, disks, and the entries on this disk
  Directory directory;
  directory.entries = record.number<std::uint64_t>();
  directory.size = record.number<std::uint64_t>();
  directory.offset = record.number<std::uint64_t>();
  if (directory.offset > at || directory.size > at - directory.offset) {
    return corrupt("zip: the directory lies outside the file");
  }
  return directory;
}

Result<Directory> find_directory(Bytes file) {
  const auto end = find_end(file);
  if (!end) return corrupt("zip: no end record; the file is truncated, or is not a zip archive");
  Cursor record(file.subspan(*end));
  record.skip(10);  // mark, disks, and the entries on this disk
  Directory directory;
  directory.entries = record.number<std::uint16_t>();
  directory.size = record.number<std::uint32_t>();
  directory.offset = record.number<std::uint32_t>();
  const bool in_64 =
      directory.entries == kFull16 || directory.size == kFull32 || directory.offset == kFull32;
  if (in_64) return read_end64(file, *end);
  if (directory.offset > *end || directory.size > *end - directory.offset) {
    return corrupt("zip: the directory lies outside the file");
  }
  return directory;
}

/// One entry of the directory.
struct Line {
  std::string_view name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // of its local header
};

/// Reads the 64-bit values from the extra field, for each 32-bit value that is full.
bool widen(Line& line, Bytes extra) {
  Cursor fields(extra);
  while (fields.has(2 * sizeof(std::uint16_t))) {
    const auto id = fields.number<std::uint16_t>();
    const std::size_t size = fields.number<std::uint16_t>();
    if (!fields.has(size)) return false;
    Cursor field(fields.bytes(size));
    if (id != kExtra64) continue;
    for (std::uint64_t* number : {&line.size, &line.packed, &line.offset}) {
      if (*number != kFull32) continue;
      if (!field.has(sizeof *number)) return false;
      *number = field.number<std::uint64_t>();
    }
    return true;
  }
  return line.size != kFull32 && line.packed != kFull32 && line.offset != kFull32;
}

Result<Line> read_line(Cursor& directory, const ZipLimits& limits) {
  if (!directory.has(kCentralBytes) || directory.number<std::uint32_t>() != kCentralMark) {
    return corrupt("zip: the directory is truncated or damaged");
  }
  Line line;
  directory.skip(4);  // versions
  line.flags = directory.number<std::uint16_t>();
  line.method = directory.number<std::uint16_t>();
  directory.skip(4);  // time and date
  line.crc = directory.number<std::uint32_t>();
  line.packed = directory.number<std::uint32_t>();
  line.size = directory.number<std::uint32_t>();
  const std::size_t name = directory.number<std::uint16_t>();
  const std::size_t extra = directory.number<std::uint16_t>();
  const std::size_t comment = directory.number<std::uint16_t>();
  directory.skip(8);  // disk and attributes
  line.offset = directory.number<std::uint32_t>();
  if (!directory.has(name + extra + comment)) return corrupt("zip: the directory is truncated");
  if (name > limits.name_bytes_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("zip: a name of {} bytes; the limit is {}", name, limits.name_bytes_max));
  }
  line.name = directory.text(name);
  if (!widen(line, directory.bytes(extra))) return bad_entry(line.name, "its sizes are damaged");
  directory.skip(comment);
  return line;
}

/// The content of the entry `line`, if its local header agrees. `before` is the part of the file
/// before the directory.
Result<ZipEntry> read_content(const Line& line, Bytes before) {
  if ((line.flags & kFlagEncrypted) != 0) return bad_entry(line.name, "it is encrypted");
  if (line.method != kStored || line.packed != line.size) {
    return bad_entry(line.name, "it is compressed, as TorchScript's are; torch.save() stores them");
  }
  if (line.offset > before.size() || before.size() - line.offset < kLocalBytes) {
    return bad_entry(line.name, "it is outside the file");
  }
  Cursor header(before.subspan(line.offset));
  if (header.number<std::uint32_t>() != kLocalMark) {
    return bad_entry(line.name, "its header is not at its given position");
  }
  header.skip(4);  // version and flags
  const auto method = header.number<std::uint16_t>();
  header.skip(16);  // time, date, checksum, sizes: a streaming writer puts them after the content
  const std::size_t name = header.number<std::uint16_t>();
  const std::size_t extra = header.number<std::uint16_t>();
  if (!header.has(name + extra) || header.text(name) != line.name || method != line.method) {
    return bad_entry(line.name, "its header and the directory contradict each other");
  }
  header.skip(extra);
  if (!header.has(line.size)) {
    return bad_entry(line.name, fmt::format("its {} bytes extend beyond the file", line.size));
  }
  return ZipEntry{.name = line.name, .bytes = header.bytes(line.size)};
}

Result<void> check_sum(const Line& line, Bytes content) {
  const auto* const data = reinterpret_cast<const Bytef*>(content.data());  // NOLINT
  const uLong crc = crc32_z(crc32_z(0, nullptr, 0), data, content.size());
  if (crc == line.crc) return {};
  return bad_entry(line.name, fmt::format("its CRC-32 is {:08x}, not {:08x}", crc, line.crc));
}

/// Nothing else may lie between a local header and the end of its content.
Result<void> check_apart(
    const std::vector<Line>& lines, const std::vector<ZipEntry>& entries, Bytes file) {
  struct Extent {
    std::uint64_t begin;
    std::uint64_t end;
    std::string_view name;
  };
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto end =
        static_cast<std::uint64_t>(entries[i].bytes.data() - file.data()) + entries[i].bytes.size();
    extents.push_back({.begin = lines[i].offset, .end = end, .name = lines[i].name});
  }
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return bad_entry(extents[i].name, fmt::format("it overlaps '{}'", extents[i - 1].name));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ZipEntry>> decode_zip(Bytes file, ZipLimits limits) {
  const auto directory = find_directory(file);
  if (!directory) return directory.error();
  if (directory->entries > limits.entries_max) {
    return make_error(
        Errc::kLimit,
        fmt::format("zip: {} entries; the limit is {}", directory->entries, limits.entries_max));
  }
  Cursor cursor(file.subspan(directory->offset, directory->size));
  std::vector<Line> lines;
  std::vector<ZipEntry> entries;
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < directory->entries; ++i) {
    const auto line = read_line(cursor, limits);
    if (!line) return line.error();
    if (!names.insert(line->name).second) return bad_entry(line->name, "it occurs twice");
    const auto entry = read_content(*line, file.first(directory->offset));
    if (!entry) return entry.error();
    lines.push_back(*line);
    entries.push_back(*entry);
  }
  // First this check: entries that share their bytes could take very long to sum up.
  auto sound = check_apart(lines, entries, file);
  for (std::size_t i = 0; sound && i < lines.size(); ++i) {
    sound = check_sum(lines[i], entries[i].bytes);
  }
  if (!sound) return sound.error();
  return entries;
}

}  // namespace ddprun
