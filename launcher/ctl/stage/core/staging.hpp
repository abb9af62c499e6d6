#pragma once

// What may come out of an archive, and what says that all of it did.

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

/// Fails with kCorrupt where extracting it could reach outside the destination, now or by what is
/// extracted later: an absolute path, one with "..", a link that leads out. A link's ".." are
/// allowed at its beginning only, where they cannot follow another link. Devices and the like are
/// refused too.
Result<void> check_entry(const ArchiveEntry& entry);

/// What is to be staged. Two that are the same have the same marker, and others have others.
struct Wanted {
  std::optional<Checksum> checksum;
  std::uint64_t bytes = 0;       // of the archive; these count
  std::int64_t modified_ns = 0;  // where there is no checksum
};

inline constexpr const char* kMarkerName = ".ddprun-staged";

/// What the marker says.
std::string marker_text(const Wanted& wanted);

}  // namespace ddprun
