#pragma once

namespace ddprun {

/// On how many CPUs this process may run, by its affinity mask.
int allowed_cpus();

}  // namespace ddprun
