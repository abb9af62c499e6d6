#pragma once

#include <cstddef>

namespace ddprun {

/// Empties a string or vector that is filled again for each request or reply. Its memory is kept,
/// but not more than a small one needs: one huge request must not cost memory for ever.
void clear_kept(auto& buffer) {
  constexpr std::size_t kKeptBytesMax = 65'536;
  buffer.clear();
  if (buffer.capacity() > kKeptBytesMax / sizeof(buffer[0])) buffer.shrink_to_fit();
}

}  // namespace ddprun
