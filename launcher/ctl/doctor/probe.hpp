#pragma once

// Probes of what may never answer: the disk of a file server that is gone, a silent name service.
// Each probe runs in its own process, so one that hangs, even in the kernel, delays nothing else
// and is killed after its limit.

#include "base/time.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct Probe {
  std::string subject;             // of the finding if nothing comes back
  std::string remedy;              // in that case
  std::function<Findings()> take;  // runs in a child, so its changes are lost
  Duration limit{};
};

/// Runs all probes at once; yields their findings, in order. A probe that does not answer in time
/// or cannot be started yields a finding that says so. REQUIRES: this process has one thread.
Findings run_probes(const std::vector<Probe>& probes);

}  // namespace ddprun
