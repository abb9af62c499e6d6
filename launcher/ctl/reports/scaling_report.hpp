#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct ScalingOptions {
  std::vector<std::string> logs;
  std::string path = ".";  // where gpu_memory/ is
  int epoch = 3;           // from 1
  bool strict = false;     // a missing log is an error
};

/// `ddpctl scaling-report`: prints a line for each log that is missing or invalid, then the tables.
/// With options.strict, fails with kCorrupt after printing everything if there was such a line.
Result<void> report_scaling(const ScalingOptions& options);

}  // namespace ddprun
