// Parses and checks the values of the rendezvous flags.

#include "base/endpoint.hpp"
#include "base/format_error.hpp"
#include "base/node_range.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/options.hpp"

#include <fmt/format.h>

namespace ddprun::setters {
namespace {

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

}  // namespace

Result<void> nnodes(const Given& given, Options& options) {
  const auto range = NodeRange::parse(given.text);
  if (!range) return range.error();
  options.plan.rendezvous.nodes = *range;
  return {};
}

Result<void> node_rank(const Given& given, Options& options) {
  const auto rank = parse_int<int>(given.text);
  if (!rank || *rank < 0) return invalid_argument("expected a whole number of at least 0");
  options.plan.rendezvous.node_rank = rank;
  return {};
}

Result<void> standalone(const Given& /*given*/, Options& options) {
  options.standalone = true;
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

Result<void> master_port(const Given& given, Options& options) {
  options.master_port = parse_int<std::uint16_t>(given.text);
  if (!options.master_port)
    return invalid_argument("expected a port from 0 to 65535, 0 for a free one");
  return {};
}

Result<void> local_addr(const Given& given, Options& options) {
  constexpr std::string_view kInterface = "iface:";
  if (given.text.starts_with(kInterface)) {
    const std::string name = given.text.substr(kInterface.size());
    if (name.empty())
      return invalid_argument("expected the name of an interface, such as iface:eth0");
    options.local_interface = Given{.text = name, .source = given.source};
    return {};
  }
  const auto endpoint = Endpoint::parse(given.text, 0);
  if (!endpoint || endpoint->port != 0) {
    return invalid_argument("expected a host name, an address or iface:NAME, without a port");
  }
  options.local_address = Given{.text = endpoint->host, .source = given.source};
  return {};
}

Result<void> listen_port(const Given& given, Options& options) {
  const auto port = parse_int<std::uint16_t>(given.text);
  if (!port) return invalid_argument("expected a port from 0 to 65535, 0 for a free one");
  options.plan.rendezvous.listen_port = *port;
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

Result<void> spares(const Given& /*given*/, Options& options) {
  options.plan.rendezvous.spares = true;
  return {};
}

Result<void> trust_reset(const Given& given, Options& options) {
  const auto on = parse_bool(given.text);
  if (!on) return invalid_argument("expected on or off");
  options.plan.rendezvous.trusts_reset = *on;
  return {};
}

Result<void> trust_replacement(const Given& given, Options& options) {
  const auto on = parse_bool(given.text);
  if (!on) return invalid_argument("expected on or off");
  options.plan.rendezvous.trusts_replacement = *on;
  return {};
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

}  // namespace ddprun::setters
