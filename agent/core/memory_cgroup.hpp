#pragma once

// Where the kernel counts the processes of a memory cgroup that it has killed because memory ran
// out, in both versions of cgroups (Documentation/admin-guide/cgroup-v1/memory.rst and
// cgroup-v2.rst of the kernel).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The files that may have the count, the most likely first, for the process whose
/// /proc/<pid>/cgroup is `cgroups`. A container may see its own cgroup as the root of the file
/// system.
std::vector<std::string> oom_files_of(std::string_view cgroups);

/// The count in such a file: its line "oom_kill 3". None: it has no such line, as before
/// Linux 4.13.
std::optional<std::int64_t> oom_kills_in(std::string_view text);

}  // namespace ddprun
