#include "agent/core/memory_cgroup.hpp"

#include "base/parse.hpp"

#include <algorithm>

namespace ddprun {

std::vector<std::string> oom_files_of(std::string_view cgroups) {
  std::vector<std::string> files;
  std::vector<std::string> roots;
  // hierarchy:controllers:path; version 2 has no controllers.
  for (const std::string_view line : split(cgroups, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    const std::string path(line.substr(second + 1));
    const std::string below = path == "/" ? "" : path;
    if (std::ranges::find(controllers, "memory") != controllers.end()) {
      files.push_back("/sys/fs/cgroup/memory" + below + "/memory.oom_control");
      roots.emplace_back("/sys/fs/cgroup/memory/memory.oom_control");
    } else if (line.starts_with("0::")) {
      files.push_back("/sys/fs/cgroup" + below + "/memory.events");
      files.push_back("/sys/fs/cgroup/unified" + below + "/memory.events");
      roots.emplace_back("/sys/fs/cgroup/memory.events");
    }
  }
  files.insert(files.end(), roots.begin(), roots.end());
  return files;
}

std::optional<std::int64_t> oom_kills_in(std::string_view text) {
  constexpr std::string_view kName = "oom_kill ";
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(kName)) return parse_int<std::int64_t>(line.substr(kName.size()));
  }
  return std::nullopt;
}

}  // namespace ddprun
