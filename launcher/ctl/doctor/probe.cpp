#include "launcher/ctl/doctor/probe.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{16} * 1024 * 1024;

/// A running probe, or why it could not be started.
struct Running {
  TimePoint deadline;
  pid_t pid = -1;
  Descriptor output;
  std::optional<Error> error;
};

/// A child that hangs in the kernel must not keep open the pipe that reads our output.
void let_go_of_streams() {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!nothing || ::dup2(nothing.get(), stream) < 0) ::close(stream);
  }
}

[[noreturn]] void run_child(const Probe& probe, pid_t parent, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // the parent ended before prctl took effect
  let_go_of_streams();
  // If the reader has given up, the write fails, which ends this process as well.
  ::signal(SIGPIPE, SIG_IGN);
  const bool written = write_all(output, findings_json(probe.take(), ""));
  ::_exit(written ? 0 : 1);
}

Running start(const Probe& probe) {
  Running running{.deadline = Clock::now() + probe.limit, .output = {}, .error = {}};
  auto pipe = make_pipe();
  if (!pipe) {
    running.error = pipe.error();
    return running;
  }
  running.output = std::move(pipe->read_end);
  const pid_t parent = ::getpid();
  running.pid = ::fork();
  if (running.pid == 0) run_child(probe, parent, pipe->write_end.get());
  if (running.pid < 0) running.error = make_process_error(errno, "cannot start the check");
  return running;
}

/// How a child that reported nothing ended.
std::string end_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status)) return fmt::format("the check was ended by signal {}", WTERMSIG(status));
  return fmt::format("the check ended with status {}", WEXITSTATUS(status));
}

Findings finish(const Probe& probe, const Running& running) {
  if (running.error) return {refused(probe.subject, *running.error, probe.remedy)};
  const auto output = read_to_end(running.output.get(), running.deadline, kAnswerBytesMax);
  if (!output) {
    ::kill(running.pid, SIGKILL);
    // A child that hangs in the kernel is left to init.
    ::waitpid(running.pid, nullptr, WNOHANG);
    const std::string seen = fmt::format("no answer within {:g} s", to_seconds(probe.limit));
    return {{.subject = probe.subject, .seen = seen, .remedy = probe.remedy}};
  }
  const std::string end = end_of(running.pid);
  auto findings = parse_findings(*output);
  if (findings) return *std::move(findings);
  return {{.subject = probe.subject, .seen = end, .remedy = probe.remedy}};
}

}  // namespace

Findings run_probes(const std::vector<Probe>& probes) {
  std::vector<Running> running;
  running.reserve(probes.size());
  for (const Probe& probe : probes) {
    running.push_back(start(probe));
  }
  Findings all;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    for (Finding& finding : finish(probes[i], running[i])) {
      all.push_back(std::move(finding));
    }
  }
  return all;
}

}  // namespace ddprun
