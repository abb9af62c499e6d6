#include "agent/core/rendezvous_policy.hpp"

#include "agent/core/interface_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

// Slurm signals the processes of a node within a millisecond; a loaded machine takes longer. This
// also delays the restart after a worker that such a signal ended for another reason.
constexpr Duration kNoticeDelay = std::chrono::milliseconds(200);

// Slurm starts no node of a step again: if a node gave up too soon, a job that the others finish
// would fail. Networks that look for another path after a failure may take 50 s (spanning trees).
constexpr Duration kSlurmSearchTimeout = std::chrono::seconds(60);

constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kCommandBytesMax = 256;  // short enough for two of them in one line

/// Makes the text safe to send and to compare: bytes other than printable ASCII become \xNN, and
/// long text is cut.
std::string as_plain_text(std::string_view text, std::size_t bytes_max) {
  std::string out;
  for (const char byte : text) {
    const bool is_plain = byte >= ' ' && byte <= '~';
    const std::string next = is_plain ? std::string(1, byte)
                                      : fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    if (out.size() + next.size() > bytes_max - 3) return out + "...";
    out += next;
  }
  return out;
}

/// What may be wrong if no node answers at the endpoint, besides that the others are late.
std::string if_unanswered(const RendezvousPlan& rendezvous, bool hosts_if_called) {
  const bool may_be_virtual = rendezvous.bootstraps == Bootstraps::kIfItCanBind &&
                              !rendezvous.recognizes_endpoint && rendezvous.endpoint;
  if (!may_be_virtual) return "";
  const std::string& host = rendezvous.endpoint->host;
  if (hosts_if_called) {
    return fmt::format(
        "ddprun has not started there, or cannot listen, or {} is not an address of any node, and "
        "no "
        "connection to it has reached --node-rank 0, which is here; give --rdzv-conf is_host=true "
        "on the node behind it",
        host);
  }
  return fmt::format(
      "ddprun has not started there, or cannot listen, or {} is not an address of any node; in "
      "the last case give --node-rank 0 on the node behind it, or --rdzv-conf is_host=true",
      host);
}

/// Why the other nodes may have connected elsewhere.
std::string if_alone(const RendezvousPlan& rendezvous) {
  const std::string host = rendezvous.endpoint ? rendezvous.endpoint->host : "";
  if (host != "localhost" && !is_loopback(host)) return "";
  return fmt::format(
      "; {} means each machine itself: if the other nodes are other machines, give all of them an "
      "address of this one",
      host);
}

}  // namespace

RendezvousPolicy rendezvous_policy(const LaunchPlan& plan, RendezvousPolicy own) {
  const RendezvousPlan& rendezvous = plan.rendezvous;
  RendezvousPolicy policy = std::move(own);
  policy.job = plan.job_among_nodes();
  policy.node.node_rank = rendezvous.node_rank;
  policy.node.workers = plan.workers;
  policy.node.workload = {
      .program = as_plain_text(plan.command.name, kNameBytesMax),
      .role = as_plain_text(plan.role, kNameBytesMax),
      .command = as_plain_text(plan.command.text, kCommandBytesMax),
      .step = plan.slurm_step,
      .step_is_complete = plan.step_has_all_nodes};
  policy.spares = rendezvous.spares;
  policy.ranks_are_places = rendezvous.ranks_are_places;
  policy.nodes = rendezvous.nodes;
  policy.notice_status = plan.notice.exit_status;
  policy.expected = rendezvous.expected;
  policy.max_restarts = plan.max_restarts;
  policy.restart_window = plan.restart_window;
  policy.needs_progress = plan.needs_progress;
  policy.counts_failures = !plan.node_check.arguments.empty();
  policy.has_own_console = !plan.shares_console;
  policy.must_run_itself = !plan.shared_store;
  if (policy.if_unanswered.empty()) {
    policy.if_unanswered = if_unanswered(rendezvous, policy.hosts_if_called);
  }
  policy.if_alone = if_alone(rendezvous);
  if (rendezvous.endpoint) {
    policy.endpoints.push_back(*rendezvous.endpoint);
    for (const std::uint16_t port : rendezvous.other_ports)
      policy.endpoints.push_back({.host = rendezvous.endpoint->host, .port = port});
    for (const std::uint16_t port : rendezvous.refusal_ports)
      policy.refusals.push_back({.host = rendezvous.endpoint->host, .port = port});
  }
  policy.lease = rendezvous.lease;
  policy.trusts_reset = rendezvous.trusts_reset;
  policy.trusts_replacement = rendezvous.trusts_replacement;
  policy.has_fence = rendezvous.has_fence();
  policy.join_timeout = rendezvous.join_timeout;
  policy.regather_timeout = rendezvous.regather_timeout;
  // Long enough for survivors to report a job that this machine may have forgotten in a reboot.
  policy.last_call = std::max(rendezvous.last_call, survivors_heard_within(rendezvous.lease));
  if (!plan.slurm_step.empty()) {
    policy.ends_at_foreign = true;
    policy.notice_delay = kNoticeDelay;
    policy.search_timeout = kSlurmSearchTimeout;
  }
  return policy;
}

}  // namespace ddprun
