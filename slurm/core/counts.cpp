#include "slurm/core/counts.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"
#include "slurm/core/hostlist.hpp"

#include <cstddef>
#include <limits>
#include <optional>

namespace ddprun {
namespace {

constexpr int kCountMax = 32'767;
static_assert(kHostsMax * kCountMax <= std::numeric_limits<int>::max());

}  // namespace

Result<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t open = piece.find("(x");
    const auto count = parse_int<int>(piece.substr(0, open));
    auto times = std::optional<std::size_t>(1);
    if (open != std::string_view::npos) {
      const std::string_view behind = piece.substr(open + 2);
      times = behind.ends_with(')') ? parse_int<std::size_t>(behind.substr(0, behind.size() - 1))
                                    : std::nullopt;
    }
    if (!count || *count < 1 || *count > kCountMax || !times || *times < 1) {
      return invalid_argument(
          "'{}' is not a count up to {}, such as 4 or 4(x2)", excerpt(piece), kCountMax);
    }
    if (*times > kHostsMax - counts.size()) {
      return invalid_argument("with '{}' there are more than {} nodes", excerpt(piece), kHostsMax);
    }
    counts.insert(counts.end(), *times, *count);
  }
  return counts;
}

}  // namespace ddprun
