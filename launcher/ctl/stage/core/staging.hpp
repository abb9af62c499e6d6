#pragma once

// Which members of an archive may be extracted, and the marker of a complete extraction.

#include "base/error.hpp"
#include "launcher/ctl/stage/core/checksum.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

enum class EntryKind : std::uint8_t { kFile, kDirectory, kSymlink, kHardlink, kOther };

/// One member of an archive.
struct ArchiveEntry {
  EntryKind kind = EntryKind::kFile;
  std::string path;
  std::string target;  // of a link
};

/// Fails with kCorrupt if extracting the member could write outside the destination, now or through
/// a later member: an absolute path, a path with "..", a link that leads outside. A link's ".." are
/// allowed only at its beginning, where they cannot follow another link. Devices and other special
/// files are refused as well.
Result<void> check_entry(const ArchiveEntry& entry);

/// What is to be staged. Equal values have equal markers, different values different ones.
struct Wanted {
  std::optional<Checksum> checksum;
  std::uint64_t bytes = 0;       // of the archive; these two count
  std::int64_t modified_ns = 0;  // if there is no checksum
};

inline constexpr const char* kMarkerName = ".ddprun-staged";

/// The content of the marker.
std::string marker_text(const Wanted& wanted);

}  // namespace ddprun
