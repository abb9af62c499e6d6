#pragma once

#include "launcher/ctl/reports/memory_report.hpp"
#include "launcher/ctl/reports/scaling_report.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

void add_memory(CLI::App& app, MemoryOptions& options);
void add_scaling(CLI::App& app, ScalingOptions& options);

}  // namespace ddprun
