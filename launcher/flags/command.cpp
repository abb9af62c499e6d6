#include "launcher/flags/command.hpp"

#include "agent/core/worker_environment.hpp"
#include "base/descriptor.hpp"
#include "base/format_error.hpp"
#include "launcher/flags/core/program_name.hpp"
#include "launcher/flags/python.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// What --run-path runs: the script as __main__, with its own arguments and directory. An uncaught
/// exception goes to the error file, as if main() were decorated with @record. The process exits as
/// a child of multiprocessing does, without tearing down the interpreter: the threads of a process
/// group that the script did not destroy may abort in the teardown.
constexpr char kRunPathBootstrap[] = R"(import atexit, gc, os, sys, threading
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
import runpy
status = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    status = 0 if end.code is None else end.code
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
except Exception as error:
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != sys.argv[0]:
        trace = trace.tb_next  # not those of this text and of runpy
    error = error.with_traceback(trace or error.__traceback__)
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        import json, time, traceback
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        text = type(error).__name__ + ": " + str(error)
        try:
            with open(path, "w") as file:
                json.dump({"message": {"message": text, "extraInfo": extra}}, file)
        except OSError:
            pass
    sys.excepthook(type(error), error, error.__traceback__)
    status = 1
threading._shutdown()
atexit._run_exitfuncs()
gc.collect()  # writes what is left in files that the script did not close
for stream in sys.stdout, sys.stderr:
    try:
        stream.flush()
    except (AttributeError, OSError, ValueError):
        pass
os._exit(status & 255)
)";

enum class Kind : std::uint8_t { kPython, kElf, kOtherInterpreter };

Error unreadable(const std::string& script) {
  return format_error(
      Errc::kNotExecutable,
      "script '{}' cannot be read: {}; try chmod +r",
      script,
      std::strerror(errno));
}

Result<void> check_readable(const std::string& script) {
  if (::access(script.c_str(), R_OK) == 0) return {};
  return unreadable(script);
}

/// By the first bytes. A shebang that names Python means a Python script, as the suffix .py does.
Result<Kind> kind_of(const std::string& script) {
  if (script.ends_with(".py")) {
    auto const readable = check_readable(script);
    if (!readable) return readable.error();
    return Kind::kPython;
  }
  // Bytes that we read from a pipe would be lost for the interpreter, which reads it after us.
  std::error_code unknown;
  if (!fs::is_regular_file(script, unknown)) return Kind::kPython;
  const Descriptor file = open_file(script.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  std::array<char, 256> bytes{};
  ssize_t got = -1;
  do {
    got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  } while (file && got < 0 && errno == EINTR);
  if (got < 0) {
    // A program that may be executed but not read is still a program.
    if (errno == EACCES && is_program(script)) return Kind::kElf;
    return unreadable(script);
  }
  const std::string_view beginning(bytes.data(), static_cast<std::size_t>(got));
  const std::string_view first_line = beginning.substr(0, beginning.find('\n'));
  if (beginning.starts_with("\x7f"
                            "ELF"))
    return Kind::kElf;
  if (!beginning.starts_with("#!") || first_line.find("python") != std::string_view::npos) {
    return Kind::kPython;
  }
  return Kind::kOtherInterpreter;
}

/// `remedy` is another one than chmod; empty: there is none.
Error not_executable(const std::string& name, std::string_view remedy) {
  std::error_code error;
  const bool is_directory = fs::is_directory(name, error);
  return make_error(
      Errc::kNotExecutable,
      is_directory ? fmt::format("program '{}' is a directory; name a file in it", name)
                   : fmt::format("program '{}' is not executable; try chmod +x{}", name, remedy));
}

Result<WorkerCommand> as_it_is(const Options& options, const Environment& environment) {
  const std::string& name = options.rest.front();
  WorkerCommand command;
  command.program = command.title = name;
  command.arguments.assign(options.rest.begin() + 1, options.rest.end());
  if (name.find('/') == std::string::npos && options.runs == Runs::kProgram) {
    command.program = find_on_path({name}, environment);
    if (!command.program.empty()) return command;
    return format_error(
        Errc::kNotFound, "program '{}' is not on PATH; give its path, such as ./{}", name, name);
  }
  if (::access(name.c_str(), F_OK) != 0) {
    return format_error(Errc::kNotFound, "program '{}': {}", name, std::strerror(errno));
  }
  if (!is_program(name)) {
    return not_executable(name, options.runs == Runs::kProgram ? ", or leave --no-python out" : "");
  }
  // exec looks up a name without a slash on PATH.
  if (name.find('/') == std::string::npos) command.program = "./" + name;
  return command;
}

Result<WorkerCommand> by_python(
    const Options& options, const CommandContext& context, std::vector<std::string> how) {
  auto python = find_python(context.environment, context.own_directory);
  if (!python) return python.error();
  WorkerCommand command;
  command.program = command.interpreter = *python;
  command.title = options.rest.front();
  auto& arguments = command.arguments;
  arguments = {"-u"};
  arguments.insert(arguments.end(), how.begin(), how.end());
  arguments.insert(arguments.end(), options.rest.begin(), options.rest.end());
  return command;
}

Result<void> check_script(const std::string& script) {
  if (::access(script.c_str(), F_OK) != 0) {
    const int why = errno;
    std::error_code gone;  // the working directory may have been deleted
    const fs::path here = fs::current_path(gone);
    return format_error(
        Errc::kNotFound,
        "script '{}': {}; the working directory {}",
        script,
        std::strerror(why),
        gone ? "was deleted" : "is " + here.string());
  }
  std::error_code error;
  if (fs::is_directory(script, error) && !fs::exists(fs::path(script) / "__main__.py", error)) {
    return format_error(
        Errc::kNotExecutable,
        "script '{}' is a directory without __main__.py; name a file in it",
        script);
  }
  return {};
}

Result<WorkerCommand> script_command(const Options& options, const CommandContext& context) {
  const std::string& script = options.rest.front();
  // torchrun fails if the script is not a file here, so a program on PATH cannot change a job.
  const bool is_name = script.find('/') == std::string::npos && ::access(script.c_str(), F_OK) != 0;
  if (is_name && !find_on_path({script}, context.environment).empty()) {
    Options program = options;
    program.runs = Runs::kProgram;
    return as_it_is(program, context.environment);
  }
  auto const checked = check_script(script);
  if (!checked) return checked.error();
  std::error_code error;
  if (fs::is_directory(script, error)) return by_python(options, context, {});
  const auto kind = kind_of(script);
  if (!kind) return kind.error();
  if (*kind != Kind::kPython) return as_it_is(options, context.environment);
  return by_python(options, context, {});
}

/// The command for the name as given.
Result<WorkerCommand> command_of(const Options& options, const CommandContext& context) {
  switch (options.runs) {
    case Runs::kScript:
      return script_command(options, context);
    case Runs::kModule:
      return by_python(options, context, {"-m"});
    case Runs::kProgram:
      return as_it_is(options, context.environment);
    case Runs::kRunPath: {
      Options absolute = options;
      auto checked = check_script(absolute.rest.front());
      if (checked) checked = check_readable(absolute.rest.front());
      if (!checked) return checked.error();
      std::error_code gone;  // the working directory may have been deleted
      const fs::path path = fs::absolute(absolute.rest.front(), gone);
      if (!gone) absolute.rest.front() = path.string();
      auto command = by_python(absolute, context, {"-c", kRunPathBootstrap});
      if (command) command->title = "run_script_path";
      return command;
    }
  }
  return invalid_argument("nothing to run");
}

/// Replaces `name` at the end of `text`, if it is there, by `pattern`.
bool put_back(std::string& text, const std::string& name, const std::string& pattern) {
  if (!text.ends_with(name)) return false;
  text.replace(text.size() - name.size(), name.size(), pattern);
  return true;
}

Result<WorkerCommand> command_of_ranks(const Options& options, const CommandContext& context) {
  const std::string& pattern = options.rest.front();
  if (with_local_rank(pattern, 0) == pattern) return command_of(options, context);
  // Each rank has its own script, and all of them must exist.
  Options of_rank = options;
  for (int rank = options.plan.workers - 1; rank > 0; --rank) {
    of_rank.rest.front() = with_local_rank(pattern, rank);
    auto command = command_of(of_rank, context);
    if (!command) return command;
  }
  const std::string name = with_local_rank(pattern, 0);
  of_rank.rest.front() = name;
  auto command = command_of(of_rank, context);
  if (!command) return command;
  put_back(command->title, name, pattern);
  if (put_back(command->program, name, pattern)) return command;
  for (std::string& argument : command->arguments) {
    if (put_back(argument, name, pattern)) break;
  }
  return command;
}

}  // namespace

Result<WorkerCommand> resolve_command(const Options& options, const CommandContext& context) {
  auto command = command_of_ranks(options, context);
  if (!command) return command;
  command->name = program_name(options);
  command->text = command_text(options);
  auto wrap = resolve_program(options.plan.command.wrap, context.environment);
  if (!wrap) return with_context("--wrap", wrap.error());
  command->wrap = *std::move(wrap);
  return command;
}

Result<std::vector<std::string>> resolve_program(
    std::vector<std::string> arguments, const Environment& environment) {
  if (arguments.empty()) return arguments;
  Options program;
  program.runs = Runs::kProgram;
  program.rest = std::move(arguments);
  auto command = as_it_is(program, environment);
  if (!command && command.error().is(Errc::kNotExecutable)) {
    return not_executable(program.rest.front(), "");
  }
  if (!command) return command.error();
  command->arguments.insert(command->arguments.begin(), std::move(command->program));
  return std::move(command->arguments);
}

}  // namespace ddprun
