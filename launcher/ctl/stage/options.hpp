#pragma once

#include "base/error.hpp"
#include "launcher/ctl/stage/stage.hpp"

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

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

}  // namespace ddprun
