#include "agent/environments.hpp"

#include "base/parse.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPrograms = {"python", "python3"};

bool has_module_in(const fs::path& packages, const std::string& module) {
  std::error_code error;
  return fs::is_directory(packages / module, error) ||
         fs::is_regular_file(packages / (module + ".py"), error);
}

/// Whether the environment `prefix` has the module, installed by its own pip or the distribution.
bool has_module(const fs::path& prefix, const std::string& module) {
  std::error_code error;
  for (const char* const library : {"lib", "lib64"}) {
    for (fs::directory_iterator entry(prefix / library, error), end; !error && entry != end;
         entry.increment(error)) {
      if (!entry->path().filename().string().starts_with("python3")) continue;
      if (has_module_in(entry->path() / "site-packages", module)) return true;
      if (has_module_in(entry->path() / "dist-packages", module)) return true;
    }
  }
  return false;
}

/// The interpreter of `prefix`; empty if there is none.
std::string interpreter_of(const fs::path& prefix) {
  for (const char* const program : kPrograms) {
    const fs::path python = prefix / "bin" / program;
    if (is_program(python)) return python;
  }
  return {};
}

std::vector<fs::path> prefixes_nearby(const fs::path& directory, const Environment& environment) {
  std::vector<fs::path> prefixes;
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty()) prefixes.emplace_back(found->second);
  }
  if (const auto path = environment.find("PATH"); path != environment.end()) {
    for (const std::string_view entry : split(path->second, ':')) {
      if (fs::path(entry).filename() == "bin") prefixes.push_back(fs::path(entry).parent_path());
    }
  }
  fs::path here = directory;
  for (int level = 0; level < 3; ++level, here = here.parent_path()) {
    for (const char* const name : {"venv", ".venv", "env"})
      prefixes.push_back(here / name);
  }
  if (const auto conda = environment.find("CONDA_EXE"); conda != environment.end()) {
    const fs::path root = fs::path(conda->second).parent_path().parent_path();
    prefixes.push_back(root);
    std::error_code error;
    for (fs::directory_iterator entry(root / "envs", error), end; !error && entry != end;
         entry.increment(error)) {
      prefixes.push_back(entry->path());
    }
  }
  return prefixes;
}

}  // namespace

std::vector<std::string> interpreters_with(
    const std::string& module,
    const std::string& interpreter,
    const fs::path& directory,
    const Environment& environment) {
  std::set<fs::path> seen = {fs::path(interpreter).parent_path().parent_path()};
  std::vector<std::string> found;
  for (const fs::path& prefix : prefixes_nearby(directory, environment)) {
    if (!seen.insert(prefix).second || !has_module(prefix, module)) continue;
    std::string python = interpreter_of(prefix);
    if (!python.empty()) found.push_back(std::move(python));
  }
  return found;
}

}  // namespace ddprun
