#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct ScalingOptions {
  std::vector<std::string> logs;
  std::string path = ".";  // where gpu_memory/ is
  int epoch = 3;           // from 1
  bool strict = false;     // a log that is missing is a failure
};

/// `ddpctl scaling-report`: prints a line for each log that is missing or wrong, then the tables.
/// Fails with kCorrupt, once all is printed, if options.strict and there was such a line.
Result<void> report_scaling(const ScalingOptions& options);

}  // namespace ddprun
