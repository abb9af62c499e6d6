#include "agent/program_output.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

Result<ProgramOutput> run_and_capture(
    SpawnRequest request, OutputOf streams, TimePoint deadline, std::size_t bytes_max) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return make_errno_error(errno, "cannot make a pipe");
  const Descriptor output(ends[0]);
  Descriptor out(ends[1]);
  request.out = out.get();
  if (streams == OutputOf::kStdoutAndStderr) request.err = out.get();
  const auto process = spawn(request);
  out.reset();
  if (!process) return process.error();
  auto text = read_to_end(output.get(), deadline, bytes_max);
  if (!text) ::kill(-process->pid, SIGKILL);  // it leads the group
  int status = 0;
  while (::waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {}
  if (!text) return text.error();
  return ProgramOutput{.text = *std::move(text), .end = end_of(status)};
}

}  // namespace ddprun
