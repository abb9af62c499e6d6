// ddpctl: the operator's tool. One verb per subcommand, each in its own file.

#include "base/descriptor.hpp"
#include "base/exit_status.hpp"
#include "base/libcrypto.hpp"
#include "base/log.hpp"
#include "base/run_main.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/ddpctl_options.hpp"
#include "launcher/ctl/submit/submit.hpp"

#include <cstdlib>

namespace ddprun {
namespace {

/// The user can correct bad usage and bad files; all other errors may be temporary.
int status_of(const Error& error) {
  if (error.is(Errc::kCorrupt)) return kExitBadFile;
  return error.is(Errc::kInvalidArgument) ? kExitUsage : kExitTryAgain;
}

int fail(const Error& error) {
  report("{}", error.detail);
  return status_of(error);
}

int end(const Result<void>& done) {
  return done ? kExitOk : fail(done.error());
}

/// Carries out a command; yields the exit status.
struct Run {
  int operator()(const ShowText& show) const { return end(write_stdout(show.text)); }
  int operator()(const StatusOptions& options) const { return end(show_status(options)); }
  int operator()(const HostlistOptions& options) const { return end(show_hostlist(options)); }
  int operator()(const DoctorOptions& options) const {
    const auto is_well = examine(options);
    if (!is_well) return fail(is_well.error());
    return *is_well ? kExitOk : kExitRefused;
  }
  int operator()(const MemoryOptions& options) const { return end(analyze_memory(options)); }
  int operator()(const ScalingOptions& options) const { return end(report_scaling(options)); }
  int operator()(const SubmitOptions& options) const {
    const auto status = submit(options);
    return status ? *status : fail(status.error());
  }
  int operator()(const StageOptions& options) const {
    if (const auto loaded = load_libcrypto(); !loaded) return fail(loaded.error());
    return end(stage(options));
  }
  int operator()(const SnapshotCommand& command) const {
    if (const auto loaded = load_libcrypto(); !loaded) return fail(loaded.error());
    const auto status =
        std::visit([](const auto& options) { return run_snapshot(options); }, command);
    return status ? *status : fail(status.error());
  }
  int operator()(const StoreServeOptions& options) const { return end(serve_store(options)); }
};

int run(int argc, char* const* argv) {
  const char* const level = std::getenv("LOGLEVEL");
  if (const auto started = start_log("ddpctl", level == nullptr ? "" : level); !started) {
    return fail(started.error());
  }
  const auto command = parse_ddpctl(argc, argv);
  if (!command) return fail(command.error());
  return std::visit(Run{}, *command);
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  ddprun::fill_closed_streams();
  return ddprun::run_main("ddpctl", [&] { return ddprun::run(argc, argv); });
}
