#include "launcher/run/slurm_call.hpp"

#include "agent/run_program.hpp"
#include "base/deadline.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <signal.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 10s;
constexpr std::size_t kOutputBytesMax = 65'536;

/// Slurm's programs look for a missing configuration for a minute, and print nothing meanwhile.
Result<void> check_configuration() {
  const char* const path = std::getenv("SLURM_CONF");
  if (path == nullptr || ::access(path, R_OK) == 0) return {};
  return make_error(
      Errc::kNotFound,
      fmt::format("SLURM_CONF '{}' cannot be read here: {}", path, std::strerror(errno)));
}

}  // namespace

Result<std::string> call_slurm(const std::string& program, std::vector<std::string> arguments) {
  const auto configured = check_configuration();
  if (!configured) return configured.error();
  arguments.insert(arguments.begin(), program);
  SpawnRequest request = request_for(std::move(arguments));
  // When asked, Slurm signals every process of the step, this one too.
  request.ignored = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  auto ended = run_program(std::move(request), Clock::now() + kLimit, kOutputBytesMax);
  if (!ended) return ended.error();
  if (ended->end.ok()) return std::move(ended->out);
  std::string printed(trim(ended->out + ended->err));
  std::ranges::replace(printed, '\n', ' ');
  return make_error(Errc::kIo, fmt::format("{} says: {}", program, printed));
}

}  // namespace ddprun
