#include "launcher/ctl/stage/core/staging.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

namespace ddprun {
namespace {

constexpr std::size_t kPathBytesMax = 4096;  // Linux's own limit

Error refused(const ArchiveEntry& entry, std::string_view why) {
  return make_error(
      Errc::kCorrupt, fmt::format("'{:.200}' {}; nothing is extracted", entry.path, why));
}

bool is_name(std::string_view piece) {
  return !piece.empty() && piece != "." && piece != "..";
}

/// Whether a file written at `path` lies below the directory of extraction.
bool stays_inside(std::string_view path) {
  if (path.empty() || path.size() > kPathBytesMax || path.starts_with('/')) return false;
  for (const std::string_view piece : split(path, '/')) {
    if (piece == "..") return false;
  }
  return true;
}

std::size_t names_in(std::string_view path) {
  std::size_t names = 0;
  for (const std::string_view piece : split(path, '/')) {
    names += is_name(piece) ? 1 : 0;
  }
  return names;
}

/// REQUIRES: stays_inside(path).
bool link_stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.size() > kPathBytesMax || target.starts_with('/')) return false;
  const std::size_t names = names_in(path);
  const std::size_t depth = names == 0 ? 0 : names - 1;
  std::size_t ups = 0;
  bool was_named = false;
  for (const std::string_view piece : split(target, '/')) {
    if (piece == "..") {
      if (was_named) return false;
      ++ups;
    }
    was_named = was_named || is_name(piece);
  }
  return ups <= depth;
}

}  // namespace

Result<void> check_entry(const ArchiveEntry& entry) {
  if (!stays_inside(entry.path)) return refused(entry, "would be written outside the destination");
  switch (entry.kind) {
    case EntryKind::kFile:
    case EntryKind::kDirectory:
      return {};
    case EntryKind::kSymlink:
      if (link_stays_inside(entry.path, entry.target)) return {};
      return refused(entry, fmt::format("is a link to '{:.200}', outside", entry.target));
    case EntryKind::kHardlink:
      if (stays_inside(entry.target)) return {};
      return refused(entry, fmt::format("is a link to '{:.200}', outside", entry.target));
    case EntryKind::kOther:
      break;
  }
  return refused(entry, "is not a file, directory or link");
}

std::string marker_text(const Wanted& wanted) {
  if (wanted.checksum) return wanted.checksum->text() + '\n';
  return fmt::format("bytes {} modified_ns {}\n", wanted.bytes, wanted.modified_ns);
}

}  // namespace ddprun
