// ddprun: starts the workers of a distributed job, watches them, restarts them.

#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/run_main.hpp"
#include "base/standard_streams.hpp"
#include "launcher/flags/core/completion.hpp"
#include "launcher/flags/options.hpp"
#include "launcher/run/independent.hpp"
#include "launcher/run/run.hpp"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

namespace ddprun {
namespace {

int exit_status_of(const Error& error) {
  if (error.is(Errc::kNotFound)) return kExitNotFound;
  if (error.is(Errc::kNotExecutable)) return kExitNotExecutable;
  if (error.is(Errc::kIo)) return kExitTryAgain;
  if (error.is(Errc::kCorrupt)) return kExitBadFile;
  return kExitUsage;
}

int refuse(const Error& error) {
  report("{}", error.detail);
  return exit_status_of(error);
}

/// Writes `text` to stdout and yields the exit status.
int print(const std::string& text) {
  const auto written = write_stdout(text);
  return written ? kExitOk : refuse(written.error());
}

int launch(std::span<const std::string> arguments) {
  const Environment environment = current_environment();
  const auto level = environment.find("LOGLEVEL");
  const auto logging = start_log("ddprun", level == environment.end() ? "" : level->second);
  if (!logging) return refuse(logging.error());

  const auto request = read_request(arguments, environment);
  if (!request) return refuse(request.error());
  for (const std::string& warning : request->warnings) {
    report("warning: {}", warning);
  }
  switch (request->action) {
    case Action::kHelp:
      return print(help_text());
    case Action::kVersion:
      return print(fmt::format("ddprun {}\n", DDPRUN_VERSION));
    case Action::kCompletion:
      return print(completion_script(request->shell));
    case Action::kNothing:
      return kExitOk;
    case Action::kRun:
      warn_of_lost_orphans();
      if (request->plans.size() > 1) return run_side_by_side(request->plans);
      return run(request->plans.front(), request->requeue);
  }
  return kExitDefect;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  ddprun::report_uncaught_exceptions();
  return ddprun::run_main("ddprun", [&] {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return ddprun::launch(arguments);
  });
}
