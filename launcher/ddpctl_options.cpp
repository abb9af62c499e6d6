#include "launcher/ddpctl_options.hpp"

#include "base/flag_checks.hpp"
#include "base/nearest.hpp"
#include "launcher/doctor_options.hpp"
#include "launcher/report_options.hpp"
#include "launcher/snapshot_options.hpp"
#include "launcher/stage_options.hpp"
#include "launcher/store_workload.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr int kClientsMax = 60'000;
constexpr int kAgentsMax = 10'000;
constexpr int kWorkersMax = 10'000;
constexpr int kRepeatsMax = 1'000;
constexpr int kDepthMax = 10'000;
constexpr int kPortMax = 65'535;
constexpr double kTimeoutMaxS = 3'600;
constexpr std::int64_t kOperationsMax = 1'000'000'000'000;

void add_serve(CLI::App& store, StoreServeOptions& options) {
  CLI::App* const serve = store.add_subcommand("serve", "Serve a store until SIGTERM or SIGINT");
  serve->add_option("--host", options.endpoint.host, "Address to listen on (default: all)")
      ->check(not_empty());
  serve->add_option("--port", options.endpoint.port, "Port to listen on; 0: any free one")
      ->transform(count(0, kPortMax))
      ->capture_default_str();
  serve->add_option("--port-file", options.port_file, "Write the port to this file once it listens")
      ->check(not_empty());
}

/// The flags of `store bench` before they are parsed further.
struct RawBench {
  StoreBenchOptions options;
  std::string endpoint;
  std::string workload = "get";
};

void add_bench(CLI::App& store, RawBench& raw) {
  StoreBenchOptions& options = raw.options;
  CLI::App* const bench = store.add_subcommand("bench", "Load a store, ours or torch's");
  bench->add_option("--endpoint", raw.endpoint, "HOST:PORT of the store")->required();
  bench->add_option("--clients", options.clients, "Connections")
      ->transform(count(1, kClientsMax))
      ->capture_default_str();
  bench->add_option("--ops", options.operations, "Operations in all")
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
  bench->add_option("--server-pid", options.server_pid, "Report this process's CPU time too")
      ->transform(count(1, std::numeric_limits<pid_t>::max()));
  bench->add_flag("--json", options.json, "Print one JSON object");
}

void add_bench(CLI::App& rendezvous, RendezvousBenchOptions& options) {
  CLI::App* const bench =
      rendezvous.add_subcommand("bench", "Load a leader of our own with simulated agents");
  bench->add_option("--agents", options.agents, "Agents beside the leader's own")
      ->transform(count(2, kAgentsMax))
      ->capture_default_str();
  bench->add_option("--repeats", options.repeats, "Failures, and as many losses of an agent")
      ->transform(count(1, kRepeatsMax))
      ->capture_default_str();
  bench->add_option("--steady", options.steady_s, "Seconds of heartbeats alone")
      ->check(between(0.1, kTimeoutMaxS))
      ->capture_default_str();
  bench
      ->add_option(
          "--workers",
          options.workers,
          "Workers that start up with Gloo beside heartbeats; 0: none")
      ->transform(count(0, kWorkersMax))
      ->capture_default_str();
  bench->add_flag("--json", options.json, "Print one JSON object");
}

/// The flags of `status` before they are parsed further.
struct RawStatus {
  StatusOptions options;
  std::string endpoint;
};

void add_status(CLI::App& app, RawStatus& raw) {
  CLI::App* const status = app.add_subcommand("status", "Ask a job what it does");
  status->add_option(
      "endpoint",
      raw.endpoint,
      "HOST:PORT of any node of the job; without it, your jobs on this host are listed");
  status->add_option("--timeout", raw.options.timeout_s, "Seconds for all of it")
      ->check(between(0.01, kTimeoutMaxS))
      ->capture_default_str();
  status->add_flag("--json", raw.options.json, "Print what the leader sent: one JSON object");
}

void add_hostlist(CLI::App& app, HostlistOptions& options) {
  CLI::App* const hostlist = app.add_subcommand(
      "hostlist", "Expand LIST..., such as 'gpu-a[01-03],b7': Slurm's names for many hosts");
  // No positionals: CLI11 would take "[1-2]" for a vector of its own, and its brackets away.
  hostlist->allow_extras();
  hostlist->add_flag("--fold", options.fold, "Print one list for all of them, not a host a line");
}

/// The subcommands and flags of `app` and of what was chosen below it.
void collect_known(const CLI::App& app, std::vector<std::string>& known) {
  for (const CLI::Option* option : app.get_options()) {
    known.push_back(option->get_name());
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(below->get_name());
    if (below->parsed()) collect_known(*below, known);
  }
}

/// What CLI11 says, as one line. A word that nobody knows comes first: CLI11 would rather tell of
/// the subcommand that is missing for it.
Error refused(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  if (const auto unknown = app.remaining(/*recurse=*/true); !unknown.empty()) {
    std::vector<std::string> known;
    collect_known(app, known);
    text = fmt::format("unknown argument '{}'", unknown.front());
    const auto meant = nearest(unknown.front(), known);
    if (meant) text += fmt::format("; did you mean {}?", *meant);
  }
  return make_error(Errc::kInvalidArgument, text + "; see ddpctl --help");
}

/// A server's: it has a port.
Result<Endpoint> server_at(const char* flag, const std::string& text) {
  auto parsed = Endpoint::parse(text, 0);
  if (!parsed) return with_context(flag, parsed.error());
  if (parsed->port != 0) return parsed;
  return make_error(Errc::kInvalidArgument, fmt::format("{} '{}': give HOST:PORT", flag, text));
}

Result<DdpctlCommand> checked(RawStatus raw) {
  if (raw.endpoint.empty()) return {raw.options};
  auto endpoint = server_at("status", raw.endpoint);
  if (!endpoint) return endpoint.error();
  raw.options.endpoint = *std::move(endpoint);
  return {raw.options};
}

Result<DdpctlCommand> checked(HostlistOptions options, std::vector<std::string> lists) {
  for (const std::string& list : lists) {
    if (list.starts_with('-')) {
      return make_error(
          Errc::kInvalidArgument,
          fmt::format("unknown argument '{}'; see ddpctl hostlist --help", list));
    }
  }
  if (lists.empty()) {
    return make_error(Errc::kInvalidArgument, "LIST is required; see ddpctl hostlist --help");
  }
  options.lists = std::move(lists);
  return {options};
}

Result<DdpctlCommand> checked(RawBench raw) {
  auto endpoint = server_at("--endpoint", raw.endpoint);
  if (!endpoint) return endpoint.error();
  raw.options.endpoint = *std::move(endpoint);
  const auto workload = workload_of(raw.workload);
  if (!workload) return with_context("--workload", workload.error());
  raw.options.workload = *workload;
  return {raw.options};
}

/// The words behind `ddpctl submit`, which are sbatch's and no business of CLI11's.
Result<DdpctlCommand> parsed_submit(std::span<const char* const> arguments) {
  auto options = parse_submit({arguments.begin(), arguments.end()});
  if (!options) return options.error();
  if (options->asks_help) return ShowText{std::string(submit_help())};
  return *std::move(options);
}

/// What the subcommands of the command line are read into.
struct RawCommands {
  StoreServeOptions serve;
  RawStatus status;
  HostlistOptions hostlist;
  MemoryOptions memory;
  ScalingOptions scaling;
  RawDoctor doctor;
  RawBench bench;
  RendezvousBenchOptions rendezvous_bench;
  RawStage stage;
  RawSnapshot snapshot;
};

void add_commands(CLI::App& app, RawCommands& raw) {
  app.require_subcommand(1);
  add_status(app, raw.status);
  add_hostlist(app, raw.hostlist);
  add_memory(app, raw.memory);
  add_scaling(app, raw.scaling);
  add_doctor(app, raw.doctor);
  app.add_subcommand("submit", "Submit a batch script whose job runs the code of the commit");
  add_stage(app, raw.stage);
  add_snapshot(app, raw.snapshot);
  CLI::App* const store = app.add_subcommand("store", "The c10d key-value store");
  store->require_subcommand(1);
  add_serve(*store, raw.serve);
  add_bench(*store, raw.bench);
  CLI::App* const rendezvous = app.add_subcommand("rendezvous", "How nodes agree");
  rendezvous->require_subcommand(1);
  add_bench(*rendezvous, raw.rendezvous_bench);
}

template <class Options>
Result<DdpctlCommand> as_command(Result<Options> options) {
  if (!options) return options.error();
  return *std::move(options);
}

/// The one that was given, checked.
Result<DdpctlCommand> given_command(const CLI::App& app, RawCommands raw) {
  if (app.got_subcommand("status")) return checked(std::move(raw.status));
  if (app.got_subcommand("hostlist")) {
    return checked(raw.hostlist, app.get_subcommand("hostlist")->remaining());
  }
  if (app.got_subcommand("analyze-memory")) return raw.memory;
  if (app.got_subcommand("scaling-report")) return raw.scaling;
  if (app.got_subcommand("doctor")) return as_command(checked(raw.doctor));
  if (app.got_subcommand("stage")) return as_command(checked(raw.stage));
  if (app.got_subcommand("snapshot")) return as_command(checked(app, raw.snapshot));
  if (app.got_subcommand("rendezvous")) return raw.rendezvous_bench;
  if (app.get_subcommand("store")->got_subcommand("serve")) return raw.serve;
  return checked(std::move(raw.bench));
}

}  // namespace

Result<DdpctlCommand> parse_ddpctl(int argc, const char* const* argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (argc > 1 && arguments[1] == std::string_view("submit"))
    return parsed_submit(arguments.subspan(2));

  CLI::App app("ddpctl: the operator's tool of ddprun", "ddpctl");
  app.set_version_flag("--version", "ddpctl " DDPRUN_VERSION);
  RawCommands raw;
  add_commands(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return ShowText{fmt::format("{}\n", version.what())};
  } catch (const CLI::CallForHelp&) {
    return ShowText{app.help()};
  } catch (const CLI::ParseError& error) {
    return refused(app, error);
  }
  return given_command(app, std::move(raw));
}

}  // namespace ddprun
