#pragma once

// The table of fields of each message (json_fields.hpp says how to read one). docs/connections.md
// describes the messages.

#include "base/node_range.hpp"
#include "rendezvous/core/json_fields.hpp"
#include "rendezvous/core/lifeline_hello.hpp"
#include "rendezvous/core/messages.hpp"

#include <array>
#include <string>
#include <string_view>

namespace ddprun::wire {

// Larger than any real value, and small enough to be exact in every JSON reader.
inline constexpr Range kCount = between(0, 1'000'000'000'000'000);
inline constexpr Range kNanoseconds = between(0, 1'000'000'000LL * 86'400 * 3'650);  // ten years
inline constexpr int kNodesMax = NodeRange::kMaxNodes;
inline constexpr int kWorkersMax = 4'096;  // of one node
inline constexpr Range kNodes = between(0, kNodesMax);
inline constexpr Range kRanks = between(0, std::int64_t{kNodesMax} * kWorkersMax);
inline constexpr Range kTimes = between(0, 1'000'000'000);  // how often something was done
inline constexpr Range kExitStatus = between(0, 255);
inline constexpr Range kFailureStatus = between(1, 255);
inline constexpr Range kSignal = between(0, 64);
inline constexpr Range kPid = between(0, 4'194'304);  // PID_MAX_LIMIT of the kernel

inline constexpr Length kJob{.max = 1'024};
inline constexpr Length kHost{.max = 255};
inline constexpr Length kMachine{.max = 64};
inline constexpr Length kClause{.max = 4'096};  // a sentence for people
inline constexpr Length kTextLine{.max = 512};
inline constexpr Length kBusyWith{.max = 63};
inline constexpr Length kHosts{.max = 40'960};  // of all nodes, with commas
inline constexpr Length kSuccessors{.max = 16};
inline constexpr Length kUndecided{.max = kUndecidedMax};
inline constexpr Length kProof{.max = 64};  // hex digits of HMAC-SHA256

/// By the order of the alternatives of Message.
inline constexpr auto kTypes = std::to_array<std::string_view>(
    {"hello",      "heartbeat", "confirm", "acknowledge",   "workers",     "failure_text",
     "leaving",    "pre_vote",  "vote",    "verdict_heard", "welcome",     "heartbeat_reply",
     "redirect",   "survivor",  "wait",    "vote_request",  "offer_round", "start_round",
     "stop_round", "verdict",   "refuse"});
static_assert(kTypes.size() == std::variant_size_v<Message>);

inline constexpr std::array<std::string_view, 4> kWorkersStates = {
    "stopped", "running", "failed", "succeeded"};

constexpr bool is_host(std::string_view text) {
  return text.find_first_of(" \t/@[]") == std::string_view::npos;
}

void fields(auto& visit, Is<Endpoint> auto& endpoint) {
  visit("host", endpoint.host, kHost);
  visit("port", endpoint.port, between(0, 65'535));
  visit.require(is_host(endpoint.host), "host is not a name or an address");
}

void fields(auto& visit, Is<RoundId> auto& round) {
  visit("term", round.term, kCount);
  visit("number", round.number, kCount);
}

void fields(auto& visit, Is<Leadership> auto& leadership) {
  visit("term", leadership.term, kCount);
  visit("leader", leadership.leader);
}

void fields(auto& visit, Is<Instance> auto& instance) {
  visit("bootstrap_leader", instance.bootstrap_leader);
  visit("bootstrapped_ms", instance.bootstrapped_ms, kCount);
}

void fields(auto& visit, Is<Machine> auto& machine) {
  visit("boot", machine.boot, kMachine);
  visit("id", machine.id, kMachine);
}

void fields(auto& visit, Is<Workload> auto& workload) {
  visit("program", workload.program, kJob);
  visit("role", workload.role, kJob);
  visit("command", workload.command, kJob);
  visit("step", workload.step, kHost);
  visit("step_is_complete", workload.step_is_complete);
}

void fields(auto& visit, Is<NodeInfo> auto& node) {
  visit("incarnation", node.incarnation);
  visit("host", node.host, kHost);
  visit("listens", node.listens);
  visit("node_rank", node.node_rank, between(0, kNodesMax - 1));
  visit("workers", node.workers, between(1, kWorkersMax));
  visit("machine", node.machine);
  visit("workload", node.workload);
}

void fields(auto& visit, Is<Successor> auto& successor) {
  visit("incarnation", successor.node);
  visit("at", successor.at);
}

void fields(auto& visit, Is<Verdict> auto& verdict) {
  visit("exit_status", verdict.exit_status, kExitStatus);
  visit("why", verdict.why, kClause);
}

void fields(auto& visit, Is<LateDeath> auto& death) {
  visit("node", death.node);
  visit("is_replaced", death.is_replaced);
}

void fields(auto& visit, Is<RoundMember> auto& member) {
  visit("node", member.node);
  visit("runs", member.runs);
}

void fields(auto& visit, Is<VoterSet> auto& voters) {
  visit("round", voters.round);
  visit("size", voters.size, kNodes);
  visit("is_member", voters.is_member);
  visit("is_leader", voters.is_leader);
  visit("late", voters.late, Length{.max = kLateMax});
  visit("members", voters.members, kSuccessors);
}

void fields(auto& visit, Is<LeaderDeath> auto& death) {
  visit("of", death.of);
  visit("in_time", death.in_time);
  visit("is_replaced", death.is_replaced);
}

void fields(auto& visit, Is<Progress> auto& progress) {
  visit("attempt", progress.attempt, kTimes);
  visit("restarts_used", progress.restarts_used, kTimes);
  visit("world", progress.world, kRanks);
  visit("previous_world", progress.previous_world, kRanks);
  visit("reason", progress.reason, kClause);
}

void fields(auto& visit, Is<VoterState> auto& voter_state) {
  visit("instance", voter_state.instance);
  visit("term", voter_state.term, kCount);
  visit("obeyed", voter_state.obeyed);
  visit("committed", voter_state.committed);
  visit("offered", voter_state.offered);
  visit("undecided", voter_state.undecided, kUndecided);
  visit("offered_nodes", voter_state.offered_nodes, kNodes);
  visit("was_to_run", voter_state.was_to_run);
  visit("leader_ran", voter_state.leader_ran);
  visit("group_rank", voter_state.group_rank, between(-1, kNodesMax - 1));
  visit("progress", voter_state.progress);
  visit("verdict", voter_state.verdict);
}

void fields(auto& visit, Is<TextLine> auto& line) {
  visit("text", line.text, kTextLine);
}

void fields(auto& visit, Is<FailureNews> auto& failure) {
  visit("rank", failure.rank, kRanks);
  visit("local_rank", failure.local_rank, between(0, kWorkersMax - 1));
  visit("pid", failure.pid, kPid);
  visit("host", failure.host, kHost);
  visit("how", failure.how, kClause);
  visit("exit_status", failure.exit_status, kExitStatus);
  visit("signal", failure.signal, kSignal);
  visit("can_be_retried", failure.can_be_retried);
  visit("needs_pause", failure.needs_pause);
  visit("last_line", failure.last_line);
}

void fields(auto& visit, Is<Hello> auto& hello) {
  visit("job", hello.job, kJob);
  visit("node", hello.node);
  visit("nodes_min", hello.nodes_min, between(1, kNodesMax));
  visit("nodes_max", hello.nodes_max, between(1, kNodesMax));
  visit("max_restarts", hello.max_restarts, kTimes);
  visit("needs_progress", hello.needs_progress);
  visit("lease_ns", hello.lease, kNanoseconds);
  visit("has_fence", hello.has_fence);
  visit("trusts_replacement", hello.trusts_replacement);
  visit("voter_state", hello.voter_state);
  visit("awaits", hello.awaits);
  visit("checks_port", hello.checks_port, between(1, 65'535));
  visit.require(hello.nodes_min <= hello.nodes_max, "nodes_min exceeds nodes_max");
}

void fields(auto& visit, Is<StepReport> auto& step) {
  visit("local_rank", step.local_rank, between(0, kWorkersMax - 1));
  visit("step", step.step, kCount);
  visit("step_time_ns", step.step_time, kNanoseconds);
  visit("age_ns", step.age, kNanoseconds);
  visit("busy_with", step.busy_with, kBusyWith);
}

void fields(auto& visit, Is<Heartbeat> auto& heartbeat) {
  visit("number", heartbeat.number, kCount);
  visit("heard", heartbeat.heard, kCount);
  visit("steps", heartbeat.steps, Length{.max = kWorkersMax});
}

void fields(auto& visit, Is<Confirm> auto& confirm) {
  visit("heard", confirm.heard, kCount);
}

void fields(auto& visit, Is<Acknowledge> auto& acknowledge) {
  visit("round", acknowledge.round);
}

void fields(auto& visit, Is<WorkerNews> auto& news) {
  visit("round", news.round);
  visit("state", news.state, kWorkersStates);
  visit("failure", news.failure);
  visit("pids", news.pids, Length{.max = kWorkersMax}, kPid);
  visit("has_saved", news.has_saved);
  visit("unfit", news.unfit, kClause);
}

void fields(auto& visit, Is<FailureText> auto& failure) {
  visit("round", failure.round);
  visit("rank", failure.rank, kRanks);
  visit("lines", failure.lines, Length{.max = kFailureLinesMax});
}

void fields(auto& visit, Is<Leaving> auto& leaving) {
  visit("signal", leaving.signal, kSignal);
  visit("whole_job", leaving.whole_job);
}

void fields(auto& visit, Is<PreVote> auto& pre_vote) {
  visit("dead", pre_vote.dead);
  visit("voter_state", pre_vote.voter_state);
}

void fields(auto& visit, Is<Vote> auto& vote) {
  visit("term", vote.term, kCount);
  visit("dead", vote.dead);
  visit("voter_state", vote.voter_state);
}

void fields(auto& /*visit*/, Is<VerdictHeard> auto& /*heard*/) {}

void fields(auto& visit, Is<Welcome> auto& welcome) {
  visit("instance", welcome.instance);
  visit("term", welcome.term, kCount);
  visit("leader", welcome.leader);
  visit("lease_ns", welcome.lease, kNanoseconds);
  visit("margin_ns", welcome.margin, kNanoseconds);
  visit("successors", welcome.successors, kSuccessors);
  visit("has_begun", welcome.has_begun);
  visit("is_full", welcome.is_full);
}

void fields(auto& visit, Is<HeartbeatReply> auto& answer) {
  visit("number", answer.number, kCount);
  visit("grant_ns", answer.grant, kNanoseconds);
  visit("round", answer.round);
  visit("voter_count", answer.voter_count, kNodes);
  visit("next_ns", answer.next, kNanoseconds);
}

void fields(auto& visit, Is<Redirect> auto& redirect) {
  visit("job", redirect.job, kJob);
  visit("program", redirect.program, kJob);
  visit("role", redirect.role, kJob);
  visit("instance", redirect.instance);
  visit("has_begun", redirect.has_begun);
  visit("leadership", redirect.leadership);
  visit("leader", redirect.leader);
}

void fields(auto& visit, Is<Survivor> auto& survivor) {
  visit("job", survivor.job, kJob);
  visit("program", survivor.program, kJob);
  visit("role", survivor.role, kJob);
  visit("instance", survivor.instance);
  visit("at", survivor.at);
}

void fields(auto& visit, Is<QuorumLoss> auto& loss) {
  visit("why", loss.why, kClause);
  visit("ends", loss.ends, kClause);
}

void fields(auto& visit, Is<Wait> auto& wait) {
  visit("node", wait.node);
  visit("at", wait.at);
  visit("elsewhere", wait.elsewhere);
  visit("loss", wait.loss);
}

void fields(auto& visit, Is<VoteRequest> auto& request) {
  visit("term", request.term, kCount);
}

void fields(auto& visit, Is<Place> auto& place) {
  visit("group_rank", place.group_rank, between(0, kNodesMax - 1));
  visit("group_size", place.group_size, between(1, kNodesMax));
  visit("first_rank", place.first_rank, kRanks);
  visit("world_size", place.world_size, between(1, kRanks.max));
  visit.require(place.group_rank < place.group_size, "group_rank is not less than group_size");
  visit.require(place.first_rank < place.world_size, "first_rank is not less than world_size");
}

void fields(auto& visit, Is<OfferRound> auto& offer) {
  visit("round", offer.round);
  visit("committed", offer.committed);
  visit("place", offer.place);
  visit("nodes", offer.nodes, kNodes);
  visit("leader_runs", offer.leader_runs);
  visit("voter_count", offer.voter_count, kNodes);
  visit("master", offer.master);
  visit("successors", offer.successors, kSuccessors);
  visit("hosts", offer.hosts, kHosts);
  visit("progress", offer.progress);
}

void fields(auto& visit, Is<StartRound> auto& start) {
  visit("round", start.round);
}

void fields(auto& visit, Is<StopRound> auto& stop) {
  visit("round", stop.round);
  visit("why", stop.why, kClause);
  visit("culprit", stop.culprit);
  visit("restarts", stop.restarts);
  visit("notice", stop.notice, kSignal);
  visit("restarts_used", stop.restarts_used, kTimes);
  visit("restarts_max", stop.restarts_max, kTimes);
  visit("crashes", stop.crashes, kTimes);
  visit("repeats", stop.repeats);
  visit("pause_ns", stop.pause, kNanoseconds);
}

void fields(auto& visit, Is<VerdictNews> auto& news) {
  visit("verdict", news.verdict);
  visit("is_final", news.is_final);
}

void fields(auto& visit, Is<Refuse> auto& refuse) {
  visit("job", refuse.job, kJob);
  visit("exit_status", refuse.exit_status, kFailureStatus);
  visit("why", refuse.why, kClause);
  visit("instance", refuse.instance);
  visit("is_stranger", refuse.is_stranger);
}

void fields(auto& visit, Is<LifelineHello> auto& line) {
  visit("job", line.job, kJob);
  visit("incarnation", line.node);
  visit("leadership", line.leadership);
  visit("proof", line.proof, kProof);
}

void fields(auto& visit, Is<Message> auto& message) {
  visit.first("type", message, kTypes);
  std::visit([&visit](auto& body) { fields(visit, body); }, message);
}

}  // namespace ddprun::wire
