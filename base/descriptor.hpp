#pragma once

#include <string_view>
#include <utility>

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

  /// Gives the descriptor away: the caller closes it.
  int release() { return std::exchange(descriptor_, -1); }

  /// Closes it now.
  void reset() noexcept;

 private:
  int descriptor_ = -1;
};

/// Were stdin, stdout or stderr closed, the next file opened would get its number, and with it what
/// is printed. Each that is closed is filled by one that refuses all use. Call it first in main().
void fill_closed_streams() noexcept;

/// Writes all of `bytes`. Yields false, with errno set, when the descriptor takes no more.
/// REQUIRES: it is not non-blocking.
bool write_all(int descriptor, std::string_view bytes) noexcept;

/// Both ends of a pipe, close-on-exec.
struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

}  // namespace ddprun
