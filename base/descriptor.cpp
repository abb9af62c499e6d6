#include "base/descriptor.hpp"

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {

void Descriptor::reset() noexcept {
  // Linux closes it even if interrupted, so a second try could close another thread's descriptor.
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Descriptor open_file(const char* path, int flags, mode_t mode) noexcept {
  int opened = -1;
  do {
    opened = ::open(path, flags, mode);
  } while (opened < 0 && errno == EINTR);
  return Descriptor(opened);
}

bool write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void fill_closed_streams() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, and all lower numbers are taken.
    static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace ddprun
