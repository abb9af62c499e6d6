#include "trainer/data/tar_index.hpp"

#include "trainer/core/tar.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kEntriesMax = 100'000'000;
/// The maximum length of names and pax records.
constexpr std::int64_t kExtraBytesMax = 1 << 20;

std::string plain_path(std::string path) {
  while (path.starts_with("./")) {
    path.erase(0, 2);
  }
  while (path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

Error cut_off() {
  return make_error(Errc::kCorrupt, "the tar archive is truncated");
}

/// Goes from header to header; the values in extra headers apply to the next entry.
class TarWalk {
 public:
  /// Yields a part of the medium that contains the archive.
  using Read = std::function<Result<std::string>(const FilePart&)>;

  TarWalk(Read read, const FilePart& part)
      : read_(std::move(read)), at_(part.offset), end_(part.offset + part.bytes) {}

  Result<std::vector<TarEntry>> all();

 private:
  Result<void> take(TarHeader header);
  Result<void> take_extra(const TarHeader& header);

  Read read_;
  std::int64_t at_;
  std::int64_t end_;
  PaxRecords next_;
  std::vector<TarEntry> entries_;
};

Result<std::vector<TarEntry>> TarWalk::all() {
  constexpr auto kBlock = static_cast<std::int64_t>(kTarBlockBytes);
  while (at_ < end_) {
    if (at_ + kBlock > end_) return cut_off();
    const auto block = read_({.offset = at_, .bytes = kBlock});
    if (!block) return block.error();
    auto header = parse_tar_header(*block);
    if (!header) return header.error();
    at_ += kBlock;
    if (header->kind == TarHeader::Kind::kEnd) return std::move(entries_);
    auto const taken = take(*std::move(header));
    if (!taken) return taken.error();
  }
  // Some writers omit the blocks of zeros, but an archive without any entry is truncated.
  if (entries_.empty()) return cut_off();
  return std::move(entries_);
}

Result<void> TarWalk::take(TarHeader header) {
  using Kind = TarHeader::Kind;
  const bool is_extra = header.kind == Kind::kLongName || header.kind == Kind::kPax;
  const std::int64_t bytes = is_extra ? header.bytes : next_.bytes.value_or(header.bytes);
  if (bytes < 0 || bytes > end_ - at_) return cut_off();
  if (is_extra) {
    auto taken = take_extra(header);
    if (!taken) return taken;
  } else {
    if (header.kind == Kind::kFile || header.kind == Kind::kDirectory) {
      entries_.push_back(
          {.path = plain_path(next_.path.value_or(std::move(header.path))),
           .is_directory = header.kind == Kind::kDirectory,
           .offset = at_,
           .bytes = bytes});
    }
    next_ = {};
  }
  if (entries_.size() > kEntriesMax) {
    return make_error(Errc::kLimit, fmt::format("more than {} entries", kEntriesMax));
  }
  at_ += padded_to_blocks(bytes);
  return {};
}

Result<void> TarWalk::take_extra(const TarHeader& header) {
  if (header.bytes > kExtraBytesMax) {
    return make_error(Errc::kLimit, fmt::format("a name of {} bytes", header.bytes));
  }
  const auto content = read_({.offset = at_, .bytes = header.bytes});
  if (!content) return content.error();
  if (header.kind == TarHeader::Kind::kLongName) {
    next_.path = content->substr(0, content->find('\0'));
    return {};
  }
  auto records = parse_pax_records(*content);
  if (!records) return records.error();
  if (records->path) next_.path = std::move(records->path);
  if (records->bytes) next_.bytes = records->bytes;
  return {};
}

}  // namespace

Result<std::vector<TarEntry>> list_tar(int descriptor, const FilePart& part) {
  const auto read = [descriptor](const FilePart& wanted) { return read_part(descriptor, wanted); };
  return TarWalk(read, part).all();
}

Result<std::vector<TarEntry>> list_tar(std::string_view archive) {
  const auto read = [archive](const FilePart& wanted) -> Result<std::string> {
    return std::string(archive.substr(
        static_cast<std::size_t>(wanted.offset), static_cast<std::size_t>(wanted.bytes)));
  };
  return TarWalk(read, {.offset = 0, .bytes = std::ssize(archive)}).all();
}

Result<std::string> read_part(int descriptor, const FilePart& part) {
  std::string content(static_cast<std::size_t>(part.bytes), '\0');
  std::size_t had = 0;
  while (had < content.size()) {
    const ssize_t got = ::pread(
        descriptor,
        content.data() + had,
        content.size() - had,
        part.offset + static_cast<std::int64_t>(had));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_errno_error(errno, "reading");
    if (got == 0) return cut_off();
    had += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace ddprun
