#include "trainer/core/rank_log.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {

Verbosity verbosity_of(int times) {
  DDPRUN_CHECK(times >= 0);
  return static_cast<Verbosity>(std::min(times, static_cast<int>(Verbosity::kEveryRank)));
}

std::string rank_prefix(int rank, int world) {
  return fmt::format("[{}/{}] - ", rank + 1, world);
}

std::string prefixed_lines(int rank, int world, std::string_view text) {
  const std::string prefix = rank_prefix(rank, world);
  std::string lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines += prefix;
    lines += text.substr(0, end);
    lines += '\n';
    if (end == std::string_view::npos || end + 1 == text.size()) return lines;
    text.remove_prefix(end + 1);
  }
}

}  // namespace ddprun
