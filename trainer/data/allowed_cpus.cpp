#include "trainer/data/allowed_cpus.hpp"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace ddprun {

int allowed_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on a machine with more CPUs than the mask can hold; then all of them count.
  const bool is_known = ::sched_getaffinity(0, sizeof mask, &mask) == 0;
  const int cpus =
      is_known ? CPU_COUNT(&mask) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(cpus, 1);
}

}  // namespace ddprun
