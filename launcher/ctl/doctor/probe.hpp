#pragma once

// Looking at what may never answer: the disk of a file server that is gone, a name service that is
// silent. Each look has a process of its own, so that one which hangs, in the kernel even, holds up
// nobody, and is killed when its time is over.

#include "base/time.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

struct Probe {
  std::string subject;             // of the finding when nothing comes back
  std::string remedy;              // for that
  std::function<Findings()> take;  // runs in a child: what it changes is lost
  Duration limit{};
};

/// Takes all looks at once; yields what they found, in their order. One that gives no answer in
/// time, or cannot be started, makes a finding of that. REQUIRES: this process has one thread.
Findings run_probes(const std::vector<Probe>& probes);

}  // namespace ddprun
