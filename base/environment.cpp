#include "base/environment.hpp"

#include <string_view>

#include <unistd.h>

namespace ddprun {

Environment current_environment() {
  Environment environment;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace ddprun
