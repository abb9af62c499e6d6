#include "bench/options.hpp"

#include "base/flag_checks.hpp"
#include "bench/store_workload.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <sys/types.h>

namespace ddprun {
namespace {

constexpr int kClientsMax = 60'000;
constexpr int kAgentsMax = 10'000;
constexpr int kWorkersMax = 10'000;
constexpr int kRepeatsMax = 1'000;
constexpr int kDepthMax = 10'000;
constexpr double kSteadyMaxS = 3'600;
constexpr std::int64_t kOperationsMax = 1'000'000'000'000;

/// The flags of `store` before they are parsed further.
struct RawStoreBench {
  StoreBenchOptions options;
  std::string endpoint;
  std::string workload = "get";
};

void add_store(CLI::App& app, RawStoreBench& raw) {
  StoreBenchOptions& options = raw.options;
  CLI::App* const bench = app.add_subcommand("store", "Load a store, ours or torch's");
  bench->add_option("--endpoint", raw.endpoint, "HOST:PORT of the store")->required();
  bench->add_option("--clients", options.clients, "Connections")
      ->transform(count(1, kClientsMax))
      ->capture_default_str();
  bench->add_option("--ops", options.operations, "Total number of operations")
      ->transform(count(1, kOperationsMax))
      ->capture_default_str();
  bench->add_option("--depth", options.depth, "Requests that a client sends before it reads")
      ->transform(count(1, kDepthMax))
      ->capture_default_str();
  bench
      ->add_option(
          "--workload",
          raw.workload,
          fmt::format("What an operation is: {}", fmt::join(workload_names(), ", ")))
      ->capture_default_str();
  bench->add_option("--server-pid", options.server_pid, "Also report this process's CPU time")
      ->transform(count(1, std::numeric_limits<pid_t>::max()));
  bench->add_flag("--json", options.json, "Print one JSON object");
}

void add_rendezvous(CLI::App& app, RendezvousBenchOptions& options) {
  CLI::App* const bench = app.add_subcommand("rendezvous", "Load a leader with simulated agents");
  bench->add_option("--agents", options.agents, "Agents besides the leader's own")
      ->transform(count(2, kAgentsMax))
      ->capture_default_str();
  bench->add_option("--repeats", options.repeats, "Worker failures, and lost agents, to simulate")
      ->transform(count(1, kRepeatsMax))
      ->capture_default_str();
  bench->add_option("--steady", options.steady_s, "Seconds of heartbeats alone")
      ->check(between(0.1, kSteadyMaxS))
      ->capture_default_str();
  bench
      ->add_option(
          "--workers",
          options.workers,
          "Workers that start up with Gloo while heartbeats continue; 0: none")
      ->transform(count(0, kWorkersMax))
      ->capture_default_str();
  bench->add_flag("--json", options.json, "Print one JSON object");
}

Result<BenchCommand> checked(RawStoreBench raw) {
  auto endpoint = endpoint_with_port("--endpoint", raw.endpoint);
  if (!endpoint) return endpoint.error();
  raw.options.endpoint = *std::move(endpoint);
  const auto workload = workload_of(raw.workload);
  if (!workload) return with_context("--workload", workload.error());
  raw.options.workload = *workload;
  return {raw.options};
}

}  // namespace

Result<BenchCommand> parse_ddpbench(int argc, const char* const* argv) {
  CLI::App app("ddpbench: load generators for ddprun's store and rendezvous", "ddpbench");
  app.set_version_flag("--version", "ddpbench " DDPRUN_VERSION);
  app.require_subcommand(1);
  RawStoreBench store;
  RendezvousBenchOptions rendezvous;
  add_store(app, store);
  add_rendezvous(app, rendezvous);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return ShowBenchText{fmt::format("{}\n", version.what())};
  } catch (const CLI::CallForHelp&) {
    return ShowBenchText{app.help()};
  } catch (const CLI::ParseError& error) {
    return make_error(Errc::kInvalidArgument, refusal(app, error));
  }
  if (app.got_subcommand("rendezvous")) return rendezvous;
  return checked(std::move(store));
}

}  // namespace ddprun
