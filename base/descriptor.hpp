#pragma once

#include <string_view>
#include <utility>

#include <sys/types.h>

namespace ddprun {

/// Owns a file descriptor and closes it; -1 owns nothing.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  /// Gives up ownership: the caller must close the descriptor.
  int release() { return std::exchange(descriptor_, -1); }

  /// Closes it now.
  void reset() noexcept;

 private:
  int descriptor_ = -1;
};

/// As open(2), and again if a signal interrupts it, as on a network file system or FUSE. Owns
/// nothing, with errno set, if it fails.
Descriptor open_file(const char* path, int flags, mode_t mode = 0) noexcept;

/// Opens each of stdin, stdout and stderr that is closed, in a way that refuses all use. Otherwise
/// the next opened file would get its number, and with it what is printed. Call it first in main().
void fill_closed_streams() noexcept;

/// Writes all of `bytes`. Yields false, with errno set, if the descriptor takes no more. REQUIRES:
/// the descriptor is blocking.
bool write_all(int descriptor, std::string_view bytes) noexcept;

/// Both ends of a pipe, close-on-exec.
struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

}  // namespace ddprun
