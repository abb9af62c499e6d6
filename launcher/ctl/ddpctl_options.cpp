#include "launcher/ctl/ddpctl_options.hpp"

#include "base/flag_checks.hpp"
#include "base/format_error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr int kPortMax = 65'535;
constexpr double kTimeoutMaxS = 3'600;

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

/// The flags of `status` as CLI11 reads them.
struct RawStatus {
  StatusOptions options;
  std::string endpoint;
};

void add_status(CLI::App& app, RawStatus& raw) {
  CLI::App* const status = app.add_subcommand("status", "Show the state of a job");
  status->add_option(
      "endpoint",
      raw.endpoint,
      "HOST:PORT of any node of the job; without it, list your jobs on this host");
  status->add_option("--timeout", raw.options.timeout_s, "Time limit in seconds")
      ->check(between(0.01, kTimeoutMaxS))
      ->capture_default_str();
  status->add_option(
      "--secret-file",
      raw.options.secret_file,
      "Secret of the job, if it has one; also DDPRUN_SECRET_FILE or DDPRUN_SECRET");
  status->add_flag("--json", raw.options.json, "Print the leader's reply, one JSON object");
}

void add_hostlist(CLI::App& app, HostlistOptions& options) {
  CLI::App* const hostlist =
      app.add_subcommand("hostlist", "Expand LIST..., Slurm host lists such as 'gpu-a[01-03],b7'");
  // No positionals: CLI11 would read "[1-2]" as a vector and remove the brackets.
  hostlist->allow_extras();
  hostlist->add_flag("--fold", options.fold, "Print one list instead of one host per line");
}

Result<DdpctlCommand> checked(RawStatus raw) {
  if (raw.endpoint.empty()) return {raw.options};
  auto endpoint = endpoint_with_port("status", raw.endpoint);
  if (!endpoint) return endpoint.error();
  raw.options.endpoint = *std::move(endpoint);
  return {raw.options};
}

Result<DdpctlCommand> checked(HostlistOptions options, std::vector<std::string> lists) {
  for (const std::string& list : lists) {
    if (list.starts_with('-')) {
      return invalid_argument("unknown argument '{}'; see ddpctl hostlist --help", list);
    }
  }
  if (lists.empty()) {
    return invalid_argument("LIST is required; see ddpctl hostlist --help");
  }
  options.lists = std::move(lists);
  return {options};
}

/// The arguments after `ddpctl submit`: sbatch's own, which CLI11 must not parse.
Result<DdpctlCommand> parsed_submit(std::span<const char* const> arguments) {
  auto options = parse_submit({arguments.begin(), arguments.end()});
  if (!options) return options.error();
  if (options->wants_help) return ShowText{std::string(submit_help())};
  return *std::move(options);
}

/// What CLI11 reads the subcommands into.
struct RawCommands {
  StoreServeOptions serve;
  RawStatus status;
  HostlistOptions hostlist;
  MemoryOptions memory;
  ScalingOptions scaling;
  RawDoctor doctor;
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
}

template <class Options>
Result<DdpctlCommand> as_command(Result<Options> options) {
  if (!options) return options.error();
  return *std::move(options);
}

/// The given subcommand, checked.
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
  return raw.serve;
}

}  // namespace

Result<DdpctlCommand> parse_ddpctl(int argc, const char* const* argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  const std::string_view first(argc > 1 ? arguments[1] : "");
  if (first == "submit") return parsed_submit(arguments.subspan(2));
  const bool is_benched = first == "store" || first == "rendezvous";
  if (is_benched && argc > 2 && arguments[2] == std::string_view("bench")) {
    return invalid_argument(
        "'{0} bench' has moved: build ddpbench (docs/development.md) and run ddpbench {0}", first);
  }

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
    return make_error(Errc::kInvalidArgument, refusal(app, error));
  }
  return given_command(app, std::move(raw));
}

}  // namespace ddprun
