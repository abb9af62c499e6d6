// What each flag's value may be: of the job, the meeting, and failures. Those of the output stand
// in output_setters.cpp.

#include "base/endpoint.hpp"
#include "base/node_range.hpp"
#include "base/parse.hpp"
#include "launcher/core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

namespace ddprun::setters {
namespace {

constexpr char kLater[] = "several nodes come with a later version of ddprun; this one runs on one";

Error refused(std::string why) {
  return make_error(Errc::kInvalidArgument, std::move(why));
}

/// SIGTERM → 15; 0 for a name that does not exist.
int signal_of(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  name.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    const char* const known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

Result<Duration> seconds_of(const Given& given) {
  const auto seconds = parse_seconds(given.text);
  if (!seconds) return refused("expected seconds, a number from 0 on");
  return *seconds;
}

Result<void> check_conf(std::string_view key, std::string_view value, Options& options) {
  constexpr std::array<std::string_view, 8> kNumbers = {
      "join_timeout",
      "timeout",
      "last_call_timeout",
      "keep_alive_interval",
      "keep_alive_max_attempt",
      "read_timeout",
      "close_timeout",
      "heartbeat_timeout"};
  if (std::ranges::find(kNumbers, key) != kNumbers.end()) {
    if (!parse_seconds(value)) return refused(fmt::format("{}: expected a number from 0 on", key));
  } else if (key == "is_host") {
    const auto is_host = parse_bool(value);
    if (!is_host) return refused("is_host: expected true or false");
    if (!*is_host) return refused("is_host: the only node hosts the store; leave it out");
  } else if (key == "store_type") {
    if (value != "tcp") return refused("store_type: only 'tcp' is supported; leave it out");
  } else {
    options.warnings.push_back(
        fmt::format("--rdzv-conf: '{}' is not known and has no effect", key));
  }
  return {};
}

}  // namespace

Result<void> nnodes(const Given& given, Options& /*options*/) {
  const auto range = NodeRange::parse(given.text);
  if (!range) return range.error();
  if (range->max() > 1) return refused(fmt::format("{}; leave it out or give 1", kLater));
  return {};
}

Result<void> nproc_per_node(const Given& given, Options& options) {
  using By = WorkerCount::By;
  const std::string& text = given.text;
  if (text == "cpu") options.workers = {.by = By::kCpus, .number = 0};
  if (text == "gpu") options.workers = {.by = By::kGpus, .number = 0};
  if (text == "auto") options.workers = {.by = By::kAuto, .number = 0};
  if (text == "cpu" || text == "gpu" || text == "auto") return {};
  if (text == "xpu") return refused("XPUs are not counted; give their number");
  const auto number = parse_int<int>(text);
  if (!number || *number < 1 || *number > WorkerCount::kMax) {
    return refused(
        fmt::format("expected a number from 1 to {}, cpu, gpu or auto", WorkerCount::kMax));
  }
  options.workers = {.by = By::kNumber, .number = *number};
  return {};
}

Result<void> node_rank(const Given& given, Options& /*options*/) {
  const auto rank = parse_int<int>(given.text);
  if (!rank || *rank < 0) return refused("expected a whole number from 0 on");
  if (*rank != 0) return refused(fmt::format("{}, and its rank is 0", kLater));
  return {};
}

Result<void> role(const Given& given, Options& options) {
  if (given.text.empty()) return refused("a role needs a name; leave it out for 'default'");
  options.plan.role = given.text;
  return {};
}

Result<void> module(const Given& /*given*/, Options& options) {
  options.is_module = true;
  return {};
}

Result<void> no_python(const Given& /*given*/, Options& options) {
  options.is_program = true;
  return {};
}

Result<void> run_path(const Given& /*given*/, Options& options) {
  options.runs = Runs::kRunPath;
  return {};
}

Result<void> virtual_local_rank(const Given& /*given*/, Options& options) {
  options.plan.virtual_local_rank = true;
  return {};
}

Result<void> numa_binding(const Given& given, Options& /*options*/) {
  constexpr std::array<std::string_view, 4> kModes = {
      "node", "socket", "exclusive", "core-complex"};
  if (std::ranges::find(kModes, given.text) == kModes.end()) {
    return refused("expected node, socket, exclusive or core-complex");
  }
  return refused(
      "binding to NUMA nodes comes with a later version; until then use --no-python with numactl");
}

Result<void> standalone(const Given& /*given*/, Options& options) {
  options.standalone = true;
  return {};
}

Result<void> rdzv_backend(const Given& given, Options& options) {
  if (given.text != "static" && given.text != "c10d") {
    return refused("only 'static' and 'c10d' are supported; use c10d");
  }
  options.backend = given.text;
  return {};
}

Result<void> rdzv_endpoint(const Given& given, Options& options) {
  if (given.text.empty()) return {};  // torchrun's own default
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint) return endpoint.error();
  options.endpoint = given;
  return {};
}

Result<void> rdzv_id(const Given& given, Options& options) {
  constexpr std::size_t kBytesMax = 256;
  if (given.text.empty())
    return refused("an id needs at least one letter; leave it out for a random one");
  if (given.text.size() > kBytesMax)
    return refused(fmt::format("the limit is {} bytes", kBytesMax));
  options.run_id = given;
  return {};
}

Result<void> rdzv_conf(const Given& given, Options& options) {
  if (given.text.empty()) return {};
  for (const std::string_view piece : split(given.text, ',')) {
    const std::size_t equals = piece.find('=');
    const std::string_view key = trim(piece.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : trim(piece.substr(equals + 1));
    if (key.empty() || value.empty()) {
      return refused(fmt::format("expected KEY=VALUE,KEY=VALUE but found '{}'", piece));
    }
    auto checked = check_conf(key, value, options);
    if (!checked) return checked;
  }
  return {};
}

Result<void> master_addr(const Given& given, Options& options) {
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint || endpoint->port != 0)
    return refused("expected a host name or an address, without a port");
  options.master_address = Given{.text = endpoint->host, .source = given.source};
  return {};
}

Result<void> master_port(const Given& given, Options& options) {
  options.master_port = parse_int<std::uint16_t>(given.text);
  if (!options.master_port) return refused("expected a port from 0 to 65535, 0 for a free one");
  return {};
}

Result<void> local_addr(const Given& given, Options& options) {
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint || endpoint->port != 0)
    return refused("expected a host name or an address, without a port");
  options.local_address = Given{.text = endpoint->host, .source = given.source};
  return {};
}

Result<void> max_restarts(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  constexpr int kMax = std::numeric_limits<int>::max();
  if (!number || *number < 0) return refused(fmt::format("expected a number from 0 to {}", kMax));
  options.plan.max_restarts = *number;
  return {};
}

Result<void> restart_window(const Given& given, Options& options) {
  const auto window = seconds_of(given);
  if (!window) return window.error();
  if (*window == Duration::zero()) return refused("a window needs more than 0 seconds");
  options.plan.restart_window = *window;
  return {};
}

Result<void> shutdown_timeout(const Given& given, Options& options) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  options.plan.shutdown_timeout = *timeout;
  return {};
}

Result<void> signals_to_handle(const Given& given, Options& options) {
  std::vector<int> signals;
  for (const std::string_view piece : split(given.text, ',')) {
    const std::string_view name = trim(piece);
    const int number = signal_of(name);
    if (number == 0) {
      return refused(fmt::format("'{}' is no signal; expected names such as SIGTERM,SIGINT", name));
    }
    if (number == SIGKILL || number == SIGSTOP || number == SIGCHLD) {
      return refused(fmt::format("{} cannot be handled; leave it out", name));
    }
    if (std::ranges::find(signals, number) == signals.end()) signals.push_back(number);
  }
  options.plan.signals_to_handle = std::move(signals);
  options.plan.signals_text = given.text;
  return {};
}

Result<void> monitor_interval(const Given& given, Options& /*options*/) {
  const auto interval = parse_double(given.text);
  if (!interval || *interval <= 0) return refused("expected seconds, a number above 0");
  return {};
}

Result<void> start_method(const Given& given, Options& /*options*/) {
  const bool known = given.text == "spawn" || given.text == "fork" || given.text == "forkserver";
  if (!known) return refused("expected spawn, fork or forkserver");
  return {};
}

Result<void> exit_barrier_timeout(const Given& given, Options& /*options*/) {
  const auto timeout = seconds_of(given);
  if (!timeout) return timeout.error();
  return {};
}

Result<void> use_env(const Given& /*given*/, Options& /*options*/) {
  return {};
}

}  // namespace ddprun::setters
