// ddpctl: the operator's tool. One verb per subcommand; each lives in a file of its own.

#include "base/descriptor.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/say.hpp"
#include "launcher/ddpctl_options.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>

namespace ddprun {
namespace {

/// Bad usage is the caller's to mend; all else may pass.
int status_of(const Error& error) {
  return error.is(Errc::kInvalidArgument) ? kExitUsage : kExitTryAgain;
}

int fail(const Error& error) {
  say(fmt::format("ddpctl: {}\n", error.detail));
  return status_of(error);
}

struct Run {
  Result<void> operator()(const ShowText& show) const { return answer(show.text); }
  Result<void> operator()(const StatusOptions& options) const { return show_status(options); }
  Result<void> operator()(const HostlistOptions& options) const { return show_hostlist(options); }
  Result<void> operator()(const StoreServeOptions& options) const { return serve_store(options); }
  Result<void> operator()(const StoreBenchOptions& options) const { return bench_store(options); }
  Result<void> operator()(const RendezvousBenchOptions& options) const {
    return bench_rendezvous(options);
  }
};

int run(int argc, char** argv) {
  const char* const level = std::getenv("LOGLEVEL");
  if (const auto started = start_log("ddpctl", level == nullptr ? "" : level); !started) {
    return fail(started.error());
  }
  const auto command = parse_ddpctl(argc, argv);
  if (!command) return fail(command.error());
  const auto done = std::visit(Run{}, *command);
  return done ? kExitOk : fail(done.error());
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  ddprun::fill_closed_streams();
  try {
    return ddprun::run(argc, argv);
  } catch (const std::exception& defect) {
    ddprun::say(
        fmt::format("ddpctl: this is a defect of ddprun, please report it: {}\n", defect.what()));
    return ddprun::kExitDefect;
  }
}
