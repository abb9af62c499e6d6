#include "tests/support/no_allocation.hpp"

#include "base/standard_streams.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are theirs
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DDPRUN_SANITIZED 1
// A sanitizer has an allocator of its own, and calls a hook. GCC has no header for it.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
    void (*allocated)(const volatile void* block, std::size_t bytes),
    void (*freed)(const volatile void* block));
#else
#define DDPRUN_SANITIZED 0
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t number, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}
#endif
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace ddprun {
namespace {

std::atomic<bool> forbidden = false;

void allocates() {
  if (!forbidden.exchange(false)) return;  // what follows may allocate
  write_stderr("no_allocation: memory was allocated where none may be\n");
  std::abort();
}

#if DDPRUN_SANITIZED
[[maybe_unused]] const int kInstalled = ::__sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { allocates(); }, [](const volatile void*) {});
#endif

}  // namespace

void forbid_allocation() {
  forbidden = true;
}

void allow_allocation() {
  forbidden = false;
}

}  // namespace ddprun

#if !DDPRUN_SANITIZED
// In place of the C library's, for every library of the program. operator new calls malloc.
extern "C" {

void* malloc(std::size_t bytes) {
  ddprun::allocates();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t number, std::size_t bytes) {
  ddprun::allocates();
  return __libc_calloc(number, bytes);
}

void* realloc(void* block, std::size_t bytes) {
  ddprun::allocates();
  return __libc_realloc(block, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ddprun::allocates();
  return __libc_memalign(alignment, bytes);
}

}  // extern "C"
#endif
