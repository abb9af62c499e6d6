#pragma once

// What `ddpctl doctor` looks at on this machine. Each may hang where a disk does, so they are taken
// as Looks.

#include "base/time.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

/// Writes a few bytes into a file without a name in `directory`, so that nothing is left behind.
Disk probe_disk(const std::string& directory);

/// Reads the first byte of a file, or the first entry of a directory.
DataPath probe_data(const std::string& path);

Limits probe_limits(std::uint64_t nodes);
Gpus probe_gpus(const std::map<std::string, std::string>& environment);
/// Starts none, unless the program is a script: then that has until `deadline` to tell.
PythonInstallation probe_python(
    const std::map<std::string, std::string>& environment, TimePoint deadline);
KernelClock probe_clock();

}  // namespace ddprun
