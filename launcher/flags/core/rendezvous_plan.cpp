// A job of one node takes part in no rendezvous: it has a free port and a random id. The nodes of a
// larger job need values that all of them know without communication: an id, and the address of the
// first leader.

#include "base/format_error.hpp"
#include "launcher/flags/core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

constexpr std::uint16_t kNoPort = 0;
constexpr std::uint16_t kStaticPort = 29500;  // as in torchrun
constexpr std::uint16_t kC10dPort = 29400;
constexpr char kCommonId[] = "none";  // torchrun's own, the same on every node

/// "--nnodes '2'", or as it was given. REQUIRES: it was given.
std::string spelled(const CommandLine& line, const char* flag) {
  const Given& given = line.given.at(flag);
  return fmt::format("{} '{}'", given.source, given.text);
}

bool is_static(const Options& options) {
  return options.backend == "static";
}

/// The keep_alive settings of torchrun set the lease, unless --lease is given.
Result<void> plan_timeouts(const CommandLine& line, Options& options) {
  const RendezvousSettings& settings = options.settings;
  RendezvousPlan& rendezvous = options.plan.rendezvous;
  if (settings.timeout) rendezvous.join_timeout = *settings.timeout;
  if (settings.join_timeout) rendezvous.join_timeout = *settings.join_timeout;
  const bool has_keep_alive = settings.keep_alive_interval || settings.keep_alive_attempts;
  if (!has_keep_alive || line.given.contains("lease")) return {};
  constexpr Duration kInterval = std::chrono::seconds(5);
  constexpr int kAttempts = 3;
  const double lease = to_seconds(settings.keep_alive_interval.value_or(kInterval)) *
                       settings.keep_alive_attempts.value_or(kAttempts);
  constexpr double kMin = to_seconds(RendezvousPlan::kLeaseMin);
  constexpr double kMax = to_seconds(RendezvousPlan::kLeaseMax);
  if (lease < kMin || lease > kMax) {
    return invalid_argument(
        "{}: the lease is keep_alive_interval times keep_alive_max_attempt, {} s, but must be {} "
        "to {} s; leave them out, or give --lease",
        spelled(line, "rdzv-conf"),
        lease,
        kMin,
        kMax);
  }
  rendezvous.lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(lease));
  return {};
}

Result<void> check_node_rank(const CommandLine& line, const RendezvousPlan& rendezvous) {
  const int nodes = rendezvous.nodes.max();
  if (rendezvous.node_rank.value_or(0) < nodes) return {};
  const std::string rank = spelled(line, "node-rank");
  if (nodes == 1) {
    return invalid_argument("{}: the only node has rank 0; give --nnodes if there are more", rank);
  }
  return invalid_argument(
      "{}: the ranks of {} nodes are 0 to {}; count from 0, or raise --nnodes",
      rank,
      nodes,
      nodes - 1);
}

/// --rdzv-endpoint, with the default port of the backend if it names none.
Result<Endpoint> read_endpoint(const Options& options, const Given& given) {
  const auto& [text, source] = given;
  auto endpoint = Endpoint::parse(text, is_static(options) ? kNoPort : kC10dPort);
  if (!endpoint) return with_context(fmt::format("{} '{}'", source, text), endpoint.error());
  if (!is_static(options) || endpoint->port != kNoPort) return endpoint;
  return invalid_argument(
      "{} '{}': the static backend needs a port, as in '{}:29500'; or give --rdzv-backend c10d",
      source,
      text,
      endpoint->host);
}

void need_own_host(Options& options, const Given& host) {
  options.own_hosts.push_back(
      {.host = host,
       .remedy = "and the job has one node; leave it out, or set the number of nodes by --nnodes",
       .may_be_unknown = false});
}

/// One node, which hosts the store at the address that it was given, if any.
Result<void> plan_one_node(const CommandLine& line, Options& options) {
  LaunchPlan& plan = options.plan;
  plan.rendezvous.nodes = NodeRange(1, 1);
  if (options.settings.is_host == false) {
    return invalid_argument(
        "{}: is_host: the only node hosts the store; leave it out", spelled(line, "rdzv-conf"));
  }
  if (options.run_id && !options.standalone) plan.run_id = options.run_id->text;
  const Given* const local_host = options.local_address ? options.local_address->host() : nullptr;
  if (local_host != nullptr) need_own_host(options, *local_host);
  if (options.standalone) {
    if (local_host != nullptr) plan.master_address = local_host->text;
    return {};
  }
  if (options.endpoint) {
    auto endpoint = read_endpoint(options, *options.endpoint);
    if (!endpoint) return endpoint.error();
    plan.master_address = endpoint->host;
    if (endpoint->port != kNoPort) plan.master_port = endpoint->port;
    need_own_host(options, {.text = endpoint->host, .source = options.endpoint->source});
  } else {
    if (options.master_address) {
      plan.master_address = options.master_address->text;
      need_own_host(options, *options.master_address);
    }
    if (options.master_port.value_or(kNoPort) != kNoPort) plan.master_port = options.master_port;
  }
  if (local_host != nullptr) plan.master_address = local_host->text;
  return {};
}

/// The endpoint of several nodes; its text must be valid on each of them.
Result<Endpoint> common_endpoint(const CommandLine& line, const Options& options) {
  if (!options.endpoint && !options.master_address) {
    return invalid_argument(
        "{}: no rendezvous endpoint is given; give {}",
        spelled(line, "nnodes"),
        is_static(options)
            ? "--master-addr HOST of node rank 0 on every node, and to each its own --node-rank"
            : "--rdzv-endpoint HOST[:PORT], the same on every node");
  }
  const char* flag = "rdzv-endpoint";
  Endpoint endpoint;
  if (options.endpoint) {
    auto read = read_endpoint(options, *options.endpoint);
    if (!read) return read.error();
    endpoint = *std::move(read);
  } else {
    flag = "master-port";
    const std::uint16_t usual = is_static(options) ? kStaticPort : kC10dPort;
    endpoint = {.host = options.master_address->text, .port = options.master_port.value_or(usual)};
  }
  if (is_any(endpoint.host)) {
    return invalid_argument(
        "{}: stands for all addresses of one machine; give one that the other nodes can reach",
        spelled(line, options.endpoint ? "rdzv-endpoint" : "master-addr"));
  }
  if (endpoint.port != kNoPort) return endpoint;
  return invalid_argument(
      "{}: the other nodes cannot know a random port; give a number, such as {}",
      spelled(line, flag),
      kC10dPort);
}

constexpr std::array kWhereAndWho = {"node-rank", "rdzv-endpoint", "master-addr", "master-port"};

/// Given by the user, and not derived from Slurm.
bool is_typed_in(const CommandLine& line, const char* flag) {
  const auto given = line.given.find(flag);
  return given != line.given.end() && !given->second.source.starts_with("SLURM_");
}

/// With static, node rank 0 bootstraps; with c10d, the node that owns the endpoint's address.
Result<void> plan_bootstrap(const CommandLine& line, const Endpoint& endpoint, Options& options) {
  RendezvousPlan& rendezvous = options.plan.rendezvous;
  const auto& is_host = options.settings.is_host;
  if (!is_static(options)) {
    rendezvous.bootstraps = Bootstraps::kIfItCanBind;
    if (is_host) rendezvous.bootstraps = *is_host ? Bootstraps::kYes : Bootstraps::kNo;
    return {};
  }
  const bool bootstraps = rendezvous.node_rank.value_or(0) == 0;
  if (is_host.value_or(bootstraps) != bootstraps) {
    return invalid_argument(
        "{}: is_host: with the static backend only node rank 0 hosts; leave it out",
        spelled(line, "rdzv-conf"));
  }
  rendezvous.bootstraps = bootstraps ? Bootstraps::kYes : Bootstraps::kNo;
  // Two nodes may claim to be rank 0, perhaps because --node-rank was forgotten, unless everything
  // comes from Slurm: the one that the endpoint does not lead to is to find the other one there.
  const bool is_typed = std::ranges::any_of(
      kWhereAndWho, [&line](const char* flag) { return is_typed_in(line, flag); });
  if (bootstraps && is_typed && !is_host) {
    rendezvous.bootstraps = Bootstraps::kIfItCanBind;
  }
  // The address of the node that claims rank 0 may be one that a router translates.
  const std::optional<Given>& given = options.endpoint ? options.endpoint : options.master_address;
  if (!rendezvous.node_rank && given) {
    options.own_hosts.push_back(
        {.host = {.text = endpoint.host, .source = given->source},
         .remedy = "and node rank 0 must run there; give --node-rank",
         .may_be_unknown = true});
  }
  if (!rendezvous.node_rank) rendezvous.node_rank = 0;
  return {};
}

Result<void> plan_several_nodes(const CommandLine& line, Options& options) {
  LaunchPlan& plan = options.plan;
  RendezvousPlan& rendezvous = plan.rendezvous;
  if (is_static(options) && rendezvous.nodes.min() < rendezvous.nodes.max()) {
    return invalid_argument(
        "{}: the static backend has a fixed number of nodes; give {}, or --rdzv-backend c10d",
        spelled(line, "nnodes"),
        rendezvous.nodes.max());
  }
  const auto endpoint = common_endpoint(line, options);
  if (!endpoint) return endpoint.error();
  rendezvous.endpoint = *endpoint;
  plan.run_id = options.run_id ? options.run_id->text : kCommonId;
  plan.master_address.clear();
  // With c10d torchrun ignores the rank, so scripts may give the same rank on all nodes.
  rendezvous.ranks_are_places = is_static(options) || rendezvous.trusts_replacement;
  return plan_bootstrap(line, *endpoint, options);
}

}  // namespace

Result<void> plan_rendezvous(const CommandLine& line, Options& options) {
  RendezvousPlan& rendezvous = options.plan.rendezvous;
  auto planned = plan_timeouts(line, options);
  if (!planned) return planned.error();
  if (options.standalone) {
    if (rendezvous.nodes.min() > 1) {
      return invalid_argument(
          "{}: --standalone means one node; leave one of them out", spelled(line, "nnodes"));
    }
    rendezvous.nodes = NodeRange(1, 1);
  }
  planned = check_node_rank(line, rendezvous);
  if (!planned) return planned.error();
  const bool is_alone = rendezvous.nodes.max() == 1 && !line.has_others;
  if (is_alone) return plan_one_node(line, options);
  return plan_several_nodes(line, options);
}

}  // namespace ddprun
