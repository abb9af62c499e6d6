#include "trainer/data/image_source.hpp"

namespace ddprun {

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::int64_t label = 0; label < count; ++label) {
    names.push_back(std::to_string(label));
  }
  return names;
}

}  // namespace ddprun
