#include "launcher/ctl/submit/program.hpp"

#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// Descriptors that replace ours in the program; -1: inherit ours.
struct Streams {
  int in = -1;
  int out = -1;
  int err = -1;
};

class FileActions {
 public:
  explicit FileActions(const Streams& streams) {
    DDPRUN_CHECK(::posix_spawn_file_actions_init(&actions_) == 0);
    replace(STDIN_FILENO, streams.in);
    replace(STDOUT_FILENO, streams.out);
    replace(STDERR_FILENO, streams.err);
  }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  void replace(int descriptor, int by) {
    if (by < 0) return;
    DDPRUN_CHECK(::posix_spawn_file_actions_adddup2(&actions_, by, descriptor) == 0);
  }

  posix_spawn_file_actions_t actions_{};
};

std::vector<char*> pointers(std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  for (char* const* ours = environ; *ours != nullptr; ++ours) {
    const std::string_view variable = *ours;
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    const auto is_set = [name](const std::string& setting) { return setting.starts_with(name); };
    if (!std::ranges::any_of(settings, is_set)) all.emplace_back(variable);
  }
  return all;
}

Result<int> run_with(
    std::vector<std::string> arguments,
    std::vector<std::string> environment,
    const Streams& streams) {
  const FileActions actions(streams);
  pid_t pid = -1;
  const int error = ::posix_spawnp(
      &pid,
      arguments.front().c_str(),
      actions.get(),
      nullptr,
      pointers(arguments).data(),
      pointers(environment).data());
  if (error != 0) return make_process_error(error, arguments.front());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return make_errno_error(errno, arguments.front());
  }
  return WIFSIGNALED(status) ? exit_status_of_signal(WTERMSIG(status)) : WEXITSTATUS(status);
}

/// Everything that was written to `file`.
Result<std::string> content_of(const Descriptor& file, std::string_view program) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return make_errno_error(errno, program);
  if (about.st_size > static_cast<off_t>(kProgramOutputMax)) {
    return make_error(
        Errc::kLimit,
        fmt::format("{} printed more than {} MiB", program, kProgramOutputMax >> 20U));
  }
  std::string content(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t had = 0;
  while (had < content.size()) {
    const auto at = static_cast<off_t>(had);
    const ssize_t got = ::pread(file.get(), content.data() + had, content.size() - had, at);
    if (got <= 0) return make_errno_error(got < 0 ? errno : EIO, program);
    had += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace

Result<ProgramEnd> run_program(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings) {
  // Files in memory instead of pipes: two pipes would have to be read at the same time.
  const Descriptor none(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor out(::memfd_create("stdout", MFD_CLOEXEC));
  const Descriptor err(::memfd_create("stderr", MFD_CLOEXEC));
  if (!none || !out || !err) return make_errno_error(errno, arguments.front());
  const Streams streams{.in = none.get(), .out = out.get(), .err = err.get()};
  const auto status = run_with(arguments, environment_with(settings), streams);
  if (!status) return status.error();
  auto printed = content_of(out, arguments.front());
  if (!printed) return printed.error();
  auto said = content_of(err, arguments.front());
  if (!said) return said.error();
  return ProgramEnd{.status = *status, .out = *std::move(printed), .err = *std::move(said)};
}

Result<int> run_in_guard(
    const std::vector<std::string>& arguments, const std::vector<std::string>& settings) {
  return run_with(arguments, environment_with(settings), Streams{});
}

}  // namespace ddprun
