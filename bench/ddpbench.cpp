// ddpbench: load generators for the store and the rendezvous. Built on demand, never installed.

#include "base/descriptor.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/run_main.hpp"
#include "base/standard_streams.hpp"
#include "bench/options.hpp"

#include <cstdlib>
#include <variant>

namespace ddprun {
namespace {

int fail(const Error& error) {
  report("{}", error.detail);
  return error.is(Errc::kInvalidArgument) ? kExitUsage : kExitTryAgain;
}

struct Run {
  Result<void> operator()(const ShowBenchText& show) const { return write_stdout(show.text); }
  Result<void> operator()(const StoreBenchOptions& options) const { return bench_store(options); }
  Result<void> operator()(const RendezvousBenchOptions& options) const {
    return bench_rendezvous(options);
  }
};

int run(int argc, char* const* argv) {
  const char* const level = std::getenv("LOGLEVEL");
  if (const auto started = start_log("ddpbench", level == nullptr ? "" : level); !started) {
    return fail(started.error());
  }
  const auto command = parse_ddpbench(argc, argv);
  if (!command) return fail(command.error());
  const auto done = std::visit(Run{}, *command);
  return done ? kExitOk : fail(done.error());
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  ddprun::fill_closed_streams();
  return ddprun::run_main("ddpbench", [&] { return ddprun::run(argc, argv); });
}
