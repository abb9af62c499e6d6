#pragma once

#include "base/error.hpp"
#include "launcher/ctl/stage/core/checksum.hpp"

#include <filesystem>
#include <optional>

namespace ddprun {

struct StageOptions {
  std::filesystem::path archive;
  std::filesystem::path destination;
  std::optional<Checksum> checksum;
  std::filesystem::path checksum_file;  // empty: none
};

/// `ddpctl stage`: extracts an archive into a new directory, once on this node. Whoever comes while
/// another process of the node does it waits until that one has ended, for as long as it takes.
///
/// The directory appears complete, with a marker, or not at all: it is filled under another name,
/// by whoever holds a lock on it, and renamed. Fails with kInvalidArgument, kCorrupt, kNotFound
/// (libarchive), kLimit, or kIo, each with the remedy; the destination is not there then.
Result<void> stage(const StageOptions& options);

}  // namespace ddprun
