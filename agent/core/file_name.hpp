#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// `text`, such as a run id, as the name of a file or directory: short, and without slashes or dots
/// that would lead elsewhere.
inline std::string as_file_name(std::string_view text) {
  constexpr std::size_t kBytesMax = 128;
  std::string name(text.substr(0, kBytesMax));
  std::ranges::replace(name, '/', '_');
  if (name.empty() || name == "." || name == "..") name += '_';
  return name;
}

}  // namespace ddprun
