#include "launcher/requeue.hpp"

#include "agent/process.hpp"
#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"
#include "base/say.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;  // with each call of scontrol
constexpr std::size_t kAnswerMax = 65'536;

/// Empty: there is none.
std::string find_scontrol() {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return {};
  for (const std::string_view directory : split(path, ':')) {
    std::string program = std::string(directory) + "/scontrol";
    if (!directory.empty() && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

/// What scontrol says, on both streams; fails with its words where its status is not 0.
Result<std::string> ask_scontrol(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return make_errno_error(errno, "cannot make a pipe");
  const Descriptor answer(ends[0]);
  Descriptor out(ends[1]);
  SpawnRequest request;
  request.program = find_scontrol();
  if (request.program.empty()) return make_error(Errc::kNotFound, "there is no scontrol on PATH");
  request.arguments = std::move(arguments);
  request.environment = environment_entries();
  // Once it has asked, Slurm signals every process of the step, this one too.
  request.ignored = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  request.out = out.get();
  request.err = out.get();
  const auto process = spawn(request);
  out.reset();
  if (!process) return process.error();
  auto text = read_to_end(answer.get(), Clock::now() + kPatience, kAnswerMax);
  if (!text) ::kill(process->pid, SIGKILL);
  int status = 0;
  while (::waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {}
  if (!text) return with_context("scontrol", text.error());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  std::string said(trim(*text));
  std::ranges::replace(said, '\n', ' ');
  return make_error(Errc::kIo, "scontrol says: " + said);
}

/// scontrol looks for a configuration that is not there for a minute, and says nothing meanwhile.
Result<void> check_configuration() {
  const char* const path = std::getenv("SLURM_CONF");
  if (path == nullptr || ::access(path, R_OK) == 0) return {};
  return make_error(
      Errc::kNotFound,
      fmt::format("SLURM_CONF '{}' cannot be read here: {}", path, std::strerror(errno)));
}

Result<void> try_requeue(const RequeuePlan& plan) {
  const auto configured = check_configuration();
  if (!configured) return configured.error();
  const auto told = ask_scontrol({"show", "job", "--oneliner", plan.job});
  if (!told) return make_error(Errc::kNotFound, told.error().detail);  // Slurm, from here
  const auto record = parse_job_record(*told);
  if (!record) return record.error();
  const auto checked = check_requeue(*record, plan.restarts);
  if (!checked) return checked.error();
  const auto done = ask_scontrol({"requeue", plan.job});
  if (!done) return done.error();
  return {};
}

}  // namespace

void requeue(const RequeuePlan& plan, const JobEnd& end) {
  if (plan.job.empty() || !wants_requeue(plan.mode, end)) return;
  const auto done = try_requeue(plan);
  if (done) {
    say(fmt::format(
        "ddprun: Slurm was asked to start job {} again: restart {} of {} at most\n",
        plan.job,
        plan.restarts + 1,
        kRequeuesMax));
    return;
  }
  std::string why = done.error().detail;
  const bool is_out_of_reach = done.error().is(Errc::kNotFound) || done.error().is(Errc::kTimedOut);
  if (is_out_of_reach) {
    why += fmt::format(
        "; where ddprun ends with {}, let the batch script call 'scontrol requeue {}'",
        end.exit_status,
        plan.job);
  }
  say(fmt::format("ddprun: job {} is not started again: {}\n", plan.job, why));
}

}  // namespace ddprun
