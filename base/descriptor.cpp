#include "base/descriptor.hpp"

#include <unistd.h>

namespace ddprun {

void Descriptor::reset() noexcept {
  // Linux closes it even when interrupted, so a second try could close somebody else's.
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace ddprun
