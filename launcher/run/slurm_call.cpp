#include "launcher/run/slurm_call.hpp"

#include "agent/program_output.hpp"
#include "base/deadline.hpp"
#include "base/environment.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <signal.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr std::size_t kAnswerMax = 65'536;

/// Empty: there is none.
std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return {};
  for (const std::string_view directory : split(path, ':')) {
    std::string program = fmt::format("{}/{}", directory, name);
    if (!directory.empty() && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

/// Slurm's programs look for a configuration that is not there for a minute, and say nothing
/// meanwhile.
Result<void> check_configuration() {
  const char* const path = std::getenv("SLURM_CONF");
  if (path == nullptr || ::access(path, R_OK) == 0) return {};
  return make_error(
      Errc::kNotFound,
      fmt::format("SLURM_CONF '{}' cannot be read here: {}", path, std::strerror(errno)));
}

}  // namespace

Result<std::string> ask_slurm(const std::string& program, std::vector<std::string> arguments) {
  const auto configured = check_configuration();
  if (!configured) return configured.error();
  SpawnRequest request;
  request.program = find_program(program);
  if (request.program.empty())
    return make_error(Errc::kNotFound, fmt::format("there is no {} on PATH", program));
  request.arguments = std::move(arguments);
  request.environment = environment_entries();
  // Once it has asked, Slurm signals every process of the step, this one too.
  request.ignored = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  auto output = run_and_capture(
      std::move(request), OutputOf::kStdoutAndStderr, Clock::now() + kPatience, kAnswerMax);
  if (!output) return with_context(program, output.error());
  if (output->end.ok()) return std::move(output->text);
  std::string said(trim(output->text));
  std::ranges::replace(said, '\n', ' ');
  return make_error(Errc::kIo, fmt::format("{} says: {}", program, said));
}

}  // namespace ddprun
