#include "slurm/core/excerpt.hpp"

#include <cstddef>

namespace ddprun {
namespace {

constexpr std::size_t kExcerptMax = 40;

}  // namespace

std::string excerpt(std::string_view text) {
  std::string shown;
  for (const char byte : text.substr(0, kExcerptMax)) {
    shown += byte >= 0x20 && byte < 0x7F ? byte : '?';
  }
  return text.size() > kExcerptMax ? shown + "..." : shown;
}

}  // namespace ddprun
