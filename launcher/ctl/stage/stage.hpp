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

/// `ddpctl stage`: extracts an archive into a new directory, once on this node. If another process
/// of the node is doing so, waits until it has ended, without a limit.
///
/// The directory appears complete, with a marker, or not at all: the process that holds a lock on
/// it fills it under another name and renames it. Fails with kInvalidArgument, kCorrupt, kNotFound
/// (libarchive), kLimit or kIo, each with the remedy; the destination does not exist then.
Result<void> stage(const StageOptions& options);

}  // namespace ddprun
