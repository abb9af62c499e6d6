#include "slurm/core/kill_wait.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace ddprun {

std::optional<Duration> kill_wait(std::string_view slurm_conf) {
  constexpr std::string_view kName = "killwait";
  std::optional<Duration> found = std::chrono::seconds(30);
  for (const std::string_view line : split(slurm_conf, '\n')) {
    const std::string_view said = trim(line.substr(0, line.find('#')));
    const std::size_t equals = said.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trim(said.substr(0, equals));
    const auto is_same = [](char one, char other) {
      return std::tolower(static_cast<unsigned char>(one)) == other;
    };
    if (std::ranges::equal(name, kName, is_same))
      found = parse_seconds(trim(said.substr(equals + 1)));
  }
  return found;
}

}  // namespace ddprun
