#include "bench/store_bench.hpp"

#include "base/standard_streams.hpp"
#include "bench/process_usage.hpp"
#include "bench/store_load.hpp"
#include "bench/store_workload.hpp"
#include "rendezvous/listener.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <string>

#include <unistd.h>

namespace ddprun {
namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

/// The value below which `part` of the sorted `values` lie. REQUIRES: not empty.
double percentile_us(const std::vector<Duration>& values, double part) {
  const auto last = static_cast<double>(values.size() - 1);
  return Microseconds(values[static_cast<std::size_t>(part * last)]).count();
}

nlohmann::ordered_json report_of(
    const StoreBenchOptions& options,
    StoreLoadResult& result,
    Duration own_cpu,
    std::optional<Duration> server_cpu) {
  std::ranges::sort(result.latencies);
  const auto operations = static_cast<double>(result.operations);
  nlohmann::ordered_json report{
      {"workload", name_of(options.workload)},
      {"clients", options.clients},
      {"depth", options.depth},
      {"operations", result.operations},
      {"wall_s", to_seconds(result.wall)},
      {"operations_per_s", operations / to_seconds(result.wall)},
      {"latency_p50_us", percentile_us(result.latencies, 0.50)},
      {"latency_p99_us", percentile_us(result.latencies, 0.99)}};
  const auto per_operation = [&](Duration cpu) { return Microseconds(cpu).count() / operations; };
  report["client_cpu_us_per_operation"] = per_operation(own_cpu);
  if (server_cpu) report["server_cpu_us_per_operation"] = per_operation(*server_cpu);
  return report;
}

std::string table_of(const nlohmann::ordered_json& report) {
  std::string table;
  for (const auto& [name, value] : report.items()) {
    table += fmt::format(
        "{:<28} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return table;
}

}  // namespace

Result<void> bench_store(const StoreBenchOptions& options) {
  static_cast<void>(raise_descriptor_limit());
  // A server that goes away is to be told as an error: sendfile() has no MSG_NOSIGNAL.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  StoreLoad load(options);
  auto connected = load.connect();
  if (!connected) return connected;

  const auto own_before = cpu_time_of(::getpid());
  if (!own_before) return own_before.error();
  Duration server_before{};
  if (options.server_pid) {
    const auto before = cpu_time_of(*options.server_pid);
    if (!before) return make_error(Errc::kInvalidArgument, "--server-pid " + before.error().detail);
    server_before = *before;
  }
  auto result = load.run();
  if (!result) return result.error();
  const auto own_after = cpu_time_of(::getpid());
  if (!own_after) return own_after.error();
  std::optional<Duration> server_cpu;
  if (options.server_pid) {
    const auto after = cpu_time_of(*options.server_pid);
    if (!after) return after.error();
    server_cpu = *after - server_before;
  }
  const nlohmann::ordered_json report =
      report_of(options, *result, *own_after - *own_before, server_cpu);
  return write_stdout(options.json ? report.dump() + "\n" : table_of(report));
}

}  // namespace ddprun
