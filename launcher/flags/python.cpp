#include "launcher/flags/python.hpp"

#include <fmt/format.h>

#include <array>

#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPythons = {"python", "python3"};

std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

/// The Python of the environment whose bin is `directory`; empty if it is not one.
std::string python_beside(const fs::path& directory) {
  std::error_code error;
  const fs::path prefix = directory.parent_path();
  const bool is_environment =
      fs::exists(prefix / "pyvenv.cfg", error) || fs::exists(prefix / "conda-meta", error);
  for (const char* const name : kPythons) {
    if (is_environment && is_program(directory / name)) return directory / name;
  }
  return {};
}

}  // namespace

fs::path own_directory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

Result<std::string> find_python(const Environment& environment, const fs::path& own_directory) {
  const std::string named = variable(environment, "PYTHON_EXEC");
  if (!named.empty()) {
    const bool is_path = named.find('/') != std::string::npos;
    std::string found = is_path ? named : find_on_path({named}, environment);
    if (!found.empty() && is_program(found)) return found;
    const bool exists = is_path && ::access(named.c_str(), F_OK) == 0;
    return make_error(
        exists ? Errc::kNotExecutable : Errc::kNotFound,
        fmt::format("PYTHON_EXEC '{}': no such program; correct or unset it", named));
  }
  std::string found = python_beside(own_directory);
  if (found.empty()) found = find_on_path({kPythons.begin(), kPythons.end()}, environment);
  if (!found.empty()) return found;
  return make_error(
      Errc::kNotFound,
      "neither python nor python3 is on PATH; set PYTHON_EXEC, or give --no-python for a program");
}

}  // namespace ddprun
