#include "base/environment.hpp"

#include "base/parse.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace ddprun {

namespace fs = std::filesystem;

constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // as of execvp(3)

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

std::vector<std::string> environment_entries(std::vector<std::string> settings) {
  std::vector<std::string> entries = std::move(settings);
  const auto own = static_cast<std::ptrdiff_t>(entries.size());
  for (char* const* ours = ::environ; *ours != nullptr; ++ours) {
    const std::string_view entry = *ours;
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    const auto replaces = [name](const std::string& setting) {
      return !name.empty() && setting.starts_with(name);
    };
    if (std::any_of(entries.begin(), entries.begin() + own, replaces)) continue;
    entries.emplace_back(entry);
  }
  return entries;
}

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::string find_on_path(const std::vector<std::string>& names, const Environment& environment) {
  const auto path = environment.find("PATH");
  const std::string_view directories = path == environment.end() ? kDefaultPath : path->second;
  for (const std::string_view directory : split(directories, ':')) {
    for (const std::string& name : names) {
      // An empty entry is the working directory, as for the shell.
      const fs::path candidate = fs::path(directory.empty() ? "." : directory) / name;
      if (is_program(candidate)) return candidate;
    }
  }
  return {};
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace ddprun
