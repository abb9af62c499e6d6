#pragma once

// What `ddpctl doctor` looks at on this machine. Each may hang where a disk does, so they are taken
// as Looks.

#include "base/time.hpp"
#include "launcher/core/diagnosis.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

/// Writes a few bytes into a file without a name in `directory`, so that nothing is left behind.
Disk look_at_disk(const std::string& directory);

/// Reads the first byte of a file, or the first entry of a directory.
DataPath look_at_data(const std::string& path);

Limits look_at_limits(std::uint64_t nodes);
Gpus look_at_gpus(const std::map<std::string, std::string>& environment);
/// Starts none, unless the program is a script: then that has until `deadline` to tell.
PythonInstallation look_at_python(
    const std::map<std::string, std::string>& environment, TimePoint deadline);
KernelClock look_at_clock();

}  // namespace ddprun
