// The rendezvous flags.

#include "base/endpoint.hpp"
#include "launcher/flags/core/shared_setters.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kRendezvous = "Rendezvous";

Result<Duration> setting_of(std::string_view key, std::string_view value) {
  const auto seconds = parse_seconds(value);
  if (!seconds) return invalid_argument("{}: expected a number of at least 0", key);
  return *seconds;
}

/// For times that cannot be 0.
Result<Duration> positive_setting_of(std::string_view key, std::string_view value) {
  const auto seconds = parse_seconds(value);
  if (!seconds || *seconds == Duration::zero()) {
    return invalid_argument("{}: expected a number above 0", key);
  }
  return *seconds;
}

template <class Target>
Result<void> put(const Result<Duration>& value, Target& target) {
  if (!value) return value.error();
  target = *value;
  return {};
}

Result<void> put_keep_alive_attempts(std::string_view value, Options& options) {
  const auto attempts = parse_int<int>(value);
  if (!attempts || *attempts < 1) {
    return invalid_argument("keep_alive_max_attempt: expected a whole number of at least 1");
  }
  options.settings.keep_alive_attempts = attempts;
  return {};
}

Result<void> put_is_host(std::string_view value, Options& options) {
  options.settings.is_host = parse_bool(value);
  if (!options.settings.is_host) return invalid_argument("is_host: expected true or false");
  return {};
}

/// Strips one pair of quotes around `text`: in an argument list or a file, no shell has removed
/// them.
std::string_view without_quotes(std::string_view text) {
  if (text.size() < 2 || text.front() != text.back()) return text;
  if (text.front() != '\'' && text.front() != '"') return text;
  return text.substr(1, text.size() - 2);
}

/// A hint about quotes within a piece.
std::string_view about_quotes(std::string_view piece) {
  if (piece.find_first_of("'\"") == std::string_view::npos) return "";
  return "; its quotes are read as part of it, leave them out";
}

Result<void> put_setting(std::string_view key, std::string_view value, Options& options) {
  auto& settings = options.settings;
  auto& rendezvous = options.plan.rendezvous;
  if (key == "join_timeout") return put(positive_setting_of(key, value), settings.join_timeout);
  if (key == "timeout") return put(positive_setting_of(key, value), settings.timeout);
  if (key == "last_call_timeout") return put(setting_of(key, value), rendezvous.last_call);
  if (key == "keep_alive_interval")
    return put(positive_setting_of(key, value), settings.keep_alive_interval);
  if (key == "keep_alive_max_attempt") return put_keep_alive_attempts(value, options);
  if (key == "is_host") return put_is_host(value, options);
  // How long one attempt takes does not matter: ddprun retries until join_timeout.
  if (key == "close_timeout" || key == "heartbeat_timeout" || key == "read_timeout") {
    Duration unused{};
    return put(setting_of(key, value), unused);
  }
  if (key == "store_type") {
    if (value != "tcp")
      return invalid_argument("store_type: only 'tcp' is supported; leave it out");
    return {};
  }
  options.warnings.push_back(
      fmt::format("--rdzv-conf: unknown key '{}' has no effect{}", key, about_quotes(key)));
  return {};
}

Result<void> rdzv_backend(const Given& given, Options& options) {
  if (given.text != "static" && given.text != "c10d") {
    return invalid_argument("only 'static' and 'c10d' are supported; use c10d");
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
    return invalid_argument("expected at least one letter; leave it out for a random id");
  if (given.text.size() > kBytesMax)
    return invalid_argument("an id has at most {} bytes", kBytesMax);
  options.run_id = given;
  return {};
}

Result<void> rdzv_conf(const Given& given, Options& options) {
  const std::string_view settings = without_quotes(given.text);
  if (settings.empty()) return {};
  for (const std::string_view piece : split(settings, ',')) {
    const std::size_t equals = piece.find('=');
    const std::string_view key = trim(piece.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : trim(piece.substr(equals + 1));
    if (key.empty() || value.empty()) {
      return invalid_argument("expected KEY=VALUE,KEY=VALUE but found '{}'", piece);
    }
    auto const checked = put_setting(key, value, options);
    if (!checked) {
      return invalid_argument(
          "{} (given {}){}", checked.error().detail, value, about_quotes(piece));
    }
  }
  return {};
}

Result<void> master_addr(const Given& given, Options& options) {
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint || endpoint->port != 0)
    return invalid_argument("expected a host name or an address, without a port");
  options.master_address = Given{.text = endpoint->host, .source = given.source};
  return {};
}

/// `or_else`: what else the flag takes.
Result<HostOrInterface> host_or_interface(const Given& given, std::string_view or_else = "") {
  constexpr std::string_view kInterface = "iface:";
  if (given.text.starts_with(kInterface)) {
    const std::string name = given.text.substr(kInterface.size());
    if (name.empty())
      return invalid_argument("expected the name of an interface, such as iface:eth0");
    return HostOrInterface{.named = {.text = name, .source = given.source}, .is_interface = true};
  }
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint || endpoint->port != 0) {
    return invalid_argument(
        "expected {}a host name, an address or iface:NAME, without a port", or_else);
  }
  return HostOrInterface{.named = {.text = endpoint->host, .source = given.source}};
}

Result<void> local_addr(const Given& given, Options& options) {
  auto named = host_or_interface(given);
  if (!named) return named.error();
  options.local_address = *std::move(named);
  return {};
}

Result<void> bind(const Given& given, Options& options) {
  if (given.text == "all" || is_any(given.text)) {
    options.plan.rendezvous.bind.to = BindPlan::To::kAll;
    return {};
  }
  if (given.text == "agreed") return {};
  auto named = host_or_interface(given, "agreed, all, ");
  if (!named) return named.error();
  if (!named->is_interface && is_any(named->named.text)) {  // "[::]"
    options.plan.rendezvous.bind.to = BindPlan::To::kAll;
  } else {
    options.bind = *std::move(named);
  }
  return {};
}

Result<void> lease(const Given& given, Options& options) {
  const auto lease = parse_seconds(given.text);
  if (!lease || *lease < RendezvousPlan::kLeaseMin || *lease > RendezvousPlan::kLeaseMax) {
    return invalid_argument(
        "expected seconds from {} to {}",
        to_seconds(RendezvousPlan::kLeaseMin),
        to_seconds(RendezvousPlan::kLeaseMax));
  }
  options.plan.rendezvous.lease = *lease;
  return {};
}

Result<void> auth(const Given& given, Options& options) {
  constexpr std::array<std::pair<std::string_view, AuthChoice>, 4> kChoices = {{
      {"auto", AuthChoice::kAuto},
      {"munge", AuthChoice::kMunge},
      {"secret", AuthChoice::kSecret},
      {"none", AuthChoice::kNone},
  }};
  for (const auto& [name, choice] : kChoices) {
    if (given.text != name) continue;
    options.auth = given;
    options.plan.rendezvous.auth = choice;
    return {};
  }
  return invalid_argument("expected auto, munge, secret or none");
}

Result<void> secret_file(const Given& given, Options& options) {
  if (given.text.empty()) return invalid_argument("expected a file; leave it out for no secret");
  options.secret_file = given;
  return {};
}

Result<void> fence_dir(const Given& given, Options& options) {
  if (!given.text.starts_with('/')) {
    return invalid_argument("expected an absolute path to the same directory on every node");
  }
  options.fence_directory = given;
  options.plan.rendezvous.fence_directory = given.text;
  return {};
}

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kRendezvousFlags = {
    Flag{kRendezvous, "standalone", 0, "", "off",
         "One node with a random id and a free port; overrides --rdzv-backend, --rdzv-endpoint and --rdzv-id.", true,
         turn_on<&Options::standalone>},
    Flag{kRendezvous, "rdzv-backend", 0, "static|c10d", "static",
         "First leader: node rank 0 (static), or the node that owns the endpoint's address (c10d).", true,
         rdzv_backend},
    Flag{kRendezvous, "rdzv-endpoint", 0, "HOST[:PORT]", "none",
         "Where the first leader listens. Default port 29400 with c10d; static needs a port. On one node, an address of that node; port 0: a free one.",
         true, rdzv_endpoint},
    Flag{kRendezvous, "rdzv-id", 0, "ID", "random",
         "Job id: TORCHELASTIC_RUN_ID, and the name of the log directory. With several nodes the default is 'none'.",
         true, rdzv_id},
    Flag{kRendezvous, "rdzv-conf", 0, "K=V,...", "none", "Rendezvous settings, such as join_timeout=600,last_call_timeout=30.",
         true, rdzv_conf},
    Flag{kRendezvous, "master-addr", 0, "HOST", "127.0.0.1",
         "Host of node rank 0. On one node: MASTER_ADDR, an address of that node.", true, master_addr,
         "main-process-ip"},
    Flag{kRendezvous, "master-port", 0, "PORT", "a free one",
         "MASTER_PORT: where the first leader and its store listen. With several nodes the default is 29500 (29400 with c10d).", true,
         port<&Options::master_port>, "main-process-port"},
    Flag{kRendezvous, "local-addr", 0, "HOST|iface:NAME", "none",
         "This node's address for the other nodes, and MASTER_ADDR while it leads.", true, local_addr},
    Flag{kRendezvous, "listen-port", 0, "PORT", "a free one",
         "Where this node listens for the others if it becomes leader later.", true, port<&Options::plan, &LaunchPlan::rendezvous, &RendezvousPlan::listen_port>},
    Flag{kRendezvous, "bind", 0, "agreed|all|HOST|iface:NAME", "agreed",
         "Addresses at which this node listens: those at which the other nodes reach it (agreed), all, or one of them.", true, bind},
    Flag{kRendezvous, "lease", 0, "SECONDS", "3",
         "Kill this node's workers after this long without news from the leader; a node that is silent for 0.45 s more is lost. 0.5 to 3600.",
         true, lease},
    Flag{kRendezvous, "trust-reset", 0, "on|off", "on",
         "Whether a closed lifeline proves that a node is dead. off: it is lost only 0.45 s after its lease, or by a leader's goodbye.", true,
         on_or_off<&Options::plan, &LaunchPlan::rendezvous, &RendezvousPlan::trusts_reset>},
    Flag{kRendezvous, "trust-replacement", 0, "on|off", "off",
         "Whether a node that starts with the host name or rank of a silent node proves that node dead.", true,
         on_or_off<&Options::plan, &LaunchPlan::rendezvous, &RendezvousPlan::trusts_replacement>},
    Flag{kRendezvous, "auth", 0, "auto|munge|secret|none", "auto",
         "How nodes and ddpctl prove that they belong to the job's user: by MUNGE, or by --secret-file. auto: the secret if there is one, else MUNGE if it answers, else none. Also DDPRUN_AUTH.",
         true, auth},
    Flag{kRendezvous, "secret-file", 0, "FILE", "none",
         "Secret with which nodes authenticate each other; also DDPRUN_SECRET_FILE or DDPRUN_SECRET.", true,
         secret_file},
    Flag{kRendezvous, "fence-dir", 0, "DIR", "none",
         "Absolute path of a directory that all nodes share: if a job splits into halves, the half that first creates a file there continues.", true,
         fence_dir},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> rendezvous_flags() {
  return kRendezvousFlags;
}

}  // namespace ddprun
