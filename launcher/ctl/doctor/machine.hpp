#pragma once

// What `ddpctl doctor` probes on this machine. Each function may hang if a disk does, so they run
// as Probes.

#include "base/time.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

/// Writes a few bytes into an unnamed file in `directory`, so nothing is left behind.
Disk probe_disk(const std::string& directory);

/// Reads the first byte of a file, or the first entry of a directory.
DataPath probe_data(const std::string& path);

Limits probe_limits(std::uint64_t nodes);
Gpus probe_gpus(const std::map<std::string, std::string>& environment);
/// Starts no program, unless the Python is a script, which must report by `deadline`.
PythonInstallation probe_python(
    const std::map<std::string, std::string>& environment, TimePoint deadline);
KernelClock probe_clock();

}  // namespace ddprun
