#include "base/free_memory.hpp"

#include <cstddef>
#include <cstdlib>

#include <malloc.h>

#ifdef __GLIBC__
#include <array>
#include <ranges>
#endif

namespace ddprun {

#ifdef __GLIBC__
namespace {

/// glibc keeps the small blocks that a thread has freed, up to seven of each of 64 sizes, as if
/// they were in use. After a flood each of them keeps a page. This frees them for good, and leaves
/// blocks in their place that lie side by side. (malloc.c: tcache_put, TCACHE_MAX_BINS.)
void replace_kept_blocks() {
  constexpr std::size_t kSizes = 64;
  constexpr std::size_t kSmallest = 24;
  constexpr std::size_t kStep = 16;
  constexpr std::size_t kKept = 7;
  std::array<void* volatile, 2 * kKept> blocks{};  // else compilers may leave all of this out
  for (std::size_t i = 0; i < kSizes; ++i) {
    for (void* volatile& block : blocks) {
      block = std::malloc(kSmallest + i * kStep);
    }
    for (void* volatile& block : blocks | std::views::reverse) {
      std::free(block);
    }
  }
}

}  // namespace

void release_free_memory() {
  ::malloc_trim(0);
  replace_kept_blocks();
  ::malloc_trim(0);
}
#else
void release_free_memory() {}
#endif

}  // namespace ddprun
