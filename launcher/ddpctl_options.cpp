#include "launcher/ddpctl_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <map>

namespace ddprun {
namespace {

constexpr int kClientsMax = 60'000;
constexpr int kDepthMax = 10'000;
constexpr int kPortMax = 65'535;

const std::map<std::string, StoreWorkload> kWorkloads = {
    {"ping", StoreWorkload::kPing},
    {"set", StoreWorkload::kSet},
    {"get", StoreWorkload::kGet},
    {"add", StoreWorkload::kAdd},
    {"check", StoreWorkload::kCheck},
    {"multi_get", StoreWorkload::kMultiGet},
    {"multi_set", StoreWorkload::kMultiSet},
    {"set64k", StoreWorkload::kSet64k},
    {"get64k", StoreWorkload::kGet64k},
    {"value64k", StoreWorkload::kValue64k},
    {"wait_fanout", StoreWorkload::kWaitFanout},
    {"echo", StoreWorkload::kEcho},
};

void add_serve(CLI::App& store, StoreServeOptions& options) {
  CLI::App* const serve = store.add_subcommand("serve", "Serve a store until SIGTERM or SIGINT");
  serve->add_option("--host", options.endpoint.host, "Address to listen on (default: all)");
  serve->add_option("--port", options.endpoint.port, "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, kPortMax))
      ->capture_default_str();
  serve->add_option(
      "--port-file", options.port_file, "Write the port to this file once it listens");
}

void add_bench(CLI::App& store, StoreBenchOptions& options, std::string& endpoint) {
  CLI::App* const bench = store.add_subcommand("bench", "Load a store, ours or torch's");
  bench->add_option("--endpoint", endpoint, "HOST:PORT of the store")->required();
  bench->add_option("--clients", options.clients, "Connections")
      ->check(CLI::Range(1, kClientsMax))
      ->capture_default_str();
  bench->add_option("--ops", options.operations, "Operations in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--depth", options.depth, "Requests that a client sends before it reads")
      ->check(CLI::Range(1, kDepthMax))
      ->capture_default_str();
  bench->add_option("--workload", options.workload, "What an operation is")
      ->transform(CLI::CheckedTransformer(kWorkloads))
      ->default_str("get");
  bench->add_option("--server-pid", options.server_pid, "Report this process's CPU time too")
      ->check(CLI::PositiveNumber);
  bench->add_flag("--json", options.json, "Print one JSON object");
}

}  // namespace

Result<DdpctlCommand> parse_ddpctl(int argc, const char* const* argv) {
  StoreServeOptions serve;
  StoreBenchOptions bench;
  std::string endpoint;

  CLI::App app("ddpctl: the operator's tool of ddprun", "ddpctl");
  app.set_version_flag("--version", "ddpctl " DDPRUN_VERSION);
  app.require_subcommand(1);
  CLI::App* const store = app.add_subcommand("store", "The c10d key-value store");
  store->require_subcommand(1);
  add_serve(*store, serve);
  add_bench(*store, bench, endpoint);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return ShowText{fmt::format("{}\n", version.what())};
  } catch (const CLI::CallForHelp&) {
    return ShowText{app.help()};
  } catch (const CLI::ParseError& error) {
    return make_error(Errc::kInvalidArgument, fmt::format("{}; see ddpctl --help", error.what()));
  }
  if (store->got_subcommand("serve")) return serve;
  auto parsed = Endpoint::parse(endpoint, 0);
  if (!parsed) return with_context("--endpoint", parsed.error());
  if (parsed->port == 0) {
    return make_error(
        Errc::kInvalidArgument, fmt::format("--endpoint '{}': give HOST:PORT", endpoint));
  }
  bench.endpoint = *parsed;
  return bench;
}

}  // namespace ddprun
