#include "agent/core/rendezvous_policy.hpp"

namespace ddprun {
namespace {

// Slurm signals the processes of a node within a millisecond; a loaded machine takes longer. A
// worker that ends by such a signal for another reason is replaced later by this.
constexpr Duration kNoticeDelay = std::chrono::milliseconds(200);

}  // namespace

RendezvousPolicy rendezvous_policy(const LaunchPlan& plan, const OwnNode& own) {
  const MeetingPlan& meeting = plan.meeting;
  RendezvousPolicy policy;
  policy.job = plan.job_among_nodes();
  policy.node.incarnation = Incarnation{own.chance};
  policy.node.host = own.host;
  policy.node.listens = own.listens;
  policy.node.node_rank = meeting.node_rank;
  policy.node.workers = plan.workers;
  policy.nodes = meeting.nodes;
  policy.notice_status = plan.notice.exit_status;
  policy.expected = meeting.expected;
  policy.max_restarts = plan.max_restarts;
  policy.restart_window = plan.restart_window;
  policy.founds = own.founds;
  if (meeting.endpoint) {
    policy.meet.push_back(*meeting.endpoint);
    for (const std::uint16_t port : meeting.other_ports)
      policy.meet.push_back({.host = meeting.endpoint->host, .port = port});
  }
  policy.master = own.master;
  policy.lease = meeting.lease;
  policy.trusts_reset = meeting.trusts_reset;
  policy.join_timeout = meeting.join_timeout;
  policy.regather_timeout = meeting.regather_timeout;
  policy.last_call = meeting.last_call;
  if (plan.is_slurm_step) policy.notice_delay = kNoticeDelay;
  policy.seed = own.chance;
  return policy;
}

}  // namespace ddprun
