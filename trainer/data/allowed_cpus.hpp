#pragma once

namespace ddprun {

/// The number of CPUs on which this process may run, by its affinity mask.
int allowed_cpus();

}  // namespace ddprun
