#pragma once

#include "base/error.hpp"
#include "launcher/ctl/stage/core/checksum.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

struct StageOptions {
  std::filesystem::path archive;
  std::filesystem::path destination;
  std::optional<Checksum> checksum;
  std::filesystem::path checksum_file;  // empty: none
};

/// The flags of `ddpctl stage` as CLI11 reads them.
struct RawStage {
  std::string archive;
  std::string destination;
  std::string checksum_file;
  std::string md5;
  std::string sha256;
};

void add_stage(CLI::App& app, RawStage& raw);

/// Fails with kInvalidArgument.
Result<StageOptions> checked(const RawStage& raw);

/// `ddpctl stage`: extracts an archive into a new directory, once on this node. If another process
/// of the node is doing so, waits until it has ended, without a limit.
///
/// The directory appears complete, with a marker, or not at all: the process that holds a lock on
/// it fills it under another name and renames it. Fails with kInvalidArgument, kCorrupt, kNotFound
/// (libarchive), kLimit or kIo, each with the remedy; the destination does not exist then.
Result<void> stage(const StageOptions& options);

}  // namespace ddprun
