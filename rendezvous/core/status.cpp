#include "rendezvous/core/status.hpp"

#include "rendezvous/core/json_reader.hpp"
#include "rendezvous/core/json_writer.hpp"

#include <array>
#include <limits>

namespace ddprun {
namespace wire {

constexpr Range kInt = between(0, std::numeric_limits<int>::max());
constexpr Range kInt64 = between(0, std::numeric_limits<std::int64_t>::max());
constexpr Length kAny{.max = kStatusBytesMax, .allows_control = true};

// In the order of the enumerators.
constexpr std::array<std::string_view, 5> kJobStates = {
    "gathering", "pausing", "running", "stopping", "ended"};
constexpr std::array<std::string_view, 4> kProcessStates = {
    "running", "succeeded", "failed", "stopped"};

void fields(auto& visit, Is<JobStatus::Worker> auto& worker) {
  visit("rank", worker.rank, kInt);
  visit("local_rank", worker.local_rank, kInt);
  visit("pid", worker.pid, kInt);
  visit("state", worker.state, kProcessStates);
  visit("step", worker.step, kInt64);
  visit("step_time_s", worker.step_time, Seconds());
  visit("step_age_s", worker.step_age, Seconds());
  visit("busy_with", worker.busy_with, kAny);
}

void fields(auto& visit, Is<JobStatus::Node> auto& node) {
  visit("host", node.host, kAny);
  visit("address", node.address, kAny);
  visit("incarnation", node.incarnation);
  visit("state", node.state, kNodeStates);
  visit("is_leader", node.is_leader);
  visit.nullable("group_rank", node.group_rank, kInt);
  visit.nullable("heartbeat_age_s", node.heartbeat_age, Seconds());
  visit("unfit", node.unfit, kAny);
  visit("workers", node.workers, kAny);
}

void fields(auto& visit, Is<JobStatus> auto& status) {
  visit("job", status.job, kAny);
  visit("version", status.version, kAny);
  visit("state", status.state, kJobStates);
  visit("term", status.term, kInt64);
  visit("round", status.round, kInt64);
  visit("attempt", status.attempt, kInt);
  visit("restarts_used", status.restarts_used, kInt);
  visit("restarts_max", status.restarts_max, kInt);
  visit("nodes_min", status.nodes_min, between(1, kInt.max));
  visit("nodes_max", status.nodes_max, between(1, kInt.max));
  visit("lease_s", status.lease, Seconds());
  visit("reason", status.reason, kAny);
  visit.nullable("exit_status", status.exit_status, kInt);
  visit("nodes", status.nodes, kAny);
}

void fields(auto& visit, Is<PublicStatus> auto& status) {
  visit("state", status.state, kJobStates);
  visit("is_one_node", status.is_one_node);
  visit("hint", status.hint, kAny);
}

}  // namespace wire

std::string to_json(const PublicStatus& status) {
  return wire::write_json(status) + "\n";
}

Result<PublicStatus> parse_public_status(std::string_view json) {
  PublicStatus status;
  const auto read = wire::read_json(json, status, "", wire::Unknown::kSkip);
  if (!read) return read.error();
  return status;
}

std::string to_json(const JobStatus& status) {
  return wire::write_json(status) + "\n";
}

Result<JobStatus> parse_status(std::string_view json) {
  if (json.size() > kStatusBytesMax) {
    return make_error(Errc::kProtocol, fmt::format("it has more than {} bytes", kStatusBytesMax));
  }
  JobStatus status;
  const auto read = wire::read_json(json, status, "", wire::Unknown::kSkip);
  if (!read) return read.error();
  return status;
}

std::string_view state_text(JobStatus::State state) {
  constexpr std::array<std::string_view, 5> kVerbs = {
      "waits for nodes", "pauses before the next attempt", "runs", "is being stopped", "has ended"};
  return kVerbs.at(static_cast<std::size_t>(state));
}

}  // namespace ddprun
