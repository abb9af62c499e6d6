#include "base/environment.hpp"

#include <climits>

#include <array>
#include <string_view>

#include <unistd.h>

namespace ddprun {

Environment current_environment() {
  Environment environment;
  for (char* const* variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> environment_entries() {
  std::vector<std::string> entries;
  for (char* const* entry = ::environ; *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace ddprun
