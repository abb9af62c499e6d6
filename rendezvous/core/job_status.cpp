#include "rendezvous/core/job_status.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using Worker = JobStatus::Worker;

/// Of a node of the round that has told of it.
JobStatus::Node::State state_of(WorkersState state) {
  switch (state) {
    case WorkersState::kStopped:
      return JobStatus::Node::State::kStopped;
    case WorkersState::kRunning:
      return JobStatus::Node::State::kRunning;
    case WorkersState::kFailed:
      return JobStatus::Node::State::kFailed;
    case WorkersState::kSucceeded:
      return JobStatus::Node::State::kSucceeded;
  }
  return JobStatus::Node::State::kStopped;
}

/// As far as the node told of them one by one. While it runs, one that has ended exited 0.
std::vector<Worker> workers_of(const WorkerNews& news, int first_rank) {
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < news.pids.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    workers.push_back(
        {.rank = first_rank + local_rank,
         .local_rank = local_rank,
         .pid = news.pids[i],
         .state = news.pids[i] != 0 ? Worker::State::kRunning : Worker::State::kSucceeded});
  }
  if (const auto& failure = news.failure) {
    std::erase_if(workers, [&](const Worker& worker) { return worker.rank == failure->rank; });
    workers.push_back(
        {.rank = failure->rank,
         .local_rank = failure->local_rank,
         .pid = failure->pid,
         .state = Worker::State::kFailed});
    std::ranges::sort(workers, {}, &Worker::rank);
  }
  return workers;
}

void add_steps(const std::vector<StepReport>& steps, std::vector<Worker>& workers) {
  for (const StepReport& step : steps) {
    const auto worker = std::ranges::find(workers, step.local_rank, &Worker::local_rank);
    if (worker == workers.end()) continue;
    worker->step = step.step;
    if (step.step_time > Duration()) worker->step_time = step.step_time;
    worker->step_age = step.age;
    worker->busy_with = step.busy_with;
  }
}

JobStatus::Node described(Incarnation incarnation, const Coordinator::Node& node) {
  JobStatus::Node described;
  described.host = node.info.host;
  Endpoint listens = node.info.listens;
  if (listens.host.empty()) listens.host = node.info.host;
  described.address = listens.to_string();
  described.incarnation = static_cast<std::uint64_t>(incarnation);
  return described;
}

}  // namespace

JobStatus::State job_state(const Coordinator& coordinator, TimePoint now) {
  const bool is_stopping = coordinator.phase() == Coordinator::Phase::kStopping;
  if (coordinator.verdict() && !is_stopping) return JobStatus::State::kEnded;
  if (coordinator.is_pausing(now)) return JobStatus::State::kPausing;
  switch (coordinator.phase()) {
    case Coordinator::Phase::kGathering:
    case Coordinator::Phase::kOffered:
      return JobStatus::State::kGathering;
    case Coordinator::Phase::kRunning:
      return JobStatus::State::kRunning;
    case Coordinator::Phase::kStopping:
      return JobStatus::State::kStopping;
  }
  return JobStatus::State::kGathering;
}

JobStatus job_status(
    const RendezvousPolicy& policy,
    const Coordinator& coordinator,
    std::string version,
    const std::vector<StepReport>& own_steps,
    TimePoint now) {
  JobStatus status;
  status.job = policy.job;
  status.version = std::move(version);
  status.state = job_state(coordinator, now);
  status.term = coordinator.term();
  status.attempt = coordinator.progress().attempt;
  status.restarts_used = coordinator.budget().used();
  status.restarts_max = coordinator.budget().max();
  status.nodes_min = policy.nodes.min();
  status.nodes_max = policy.nodes.max();
  status.lease = policy.lease;
  status.reason = coordinator.progress().reason;
  if (const auto& verdict = coordinator.verdict()) status.exit_status = verdict->exit_status;

  const auto& round = coordinator.round();
  const auto add = [&](Incarnation incarnation, const Coordinator::Node& node) -> JobStatus::Node& {
    auto& added = status.nodes.emplace_back(described(incarnation, node));
    added.is_leader = incarnation == coordinator.self();
    added.unfit = coordinator.why_unfit(node);
    if (!added.is_leader) added.heartbeat_age = std::max(Duration::zero(), now - node.heard_at);
    return added;
  };
  std::set<Incarnation> in_round;
  if (round) {
    status.round = round->id.number;
    in_round.insert(round->to_run.begin(), round->to_run.end());
    int first_rank = 0;
    for (std::size_t i = 0; i < round->to_run.size(); ++i) {
      const auto found = coordinator.nodes().find(round->to_run[i]);
      if (found == coordinator.nodes().end()) continue;
      const auto& [incarnation, node] = *found;
      const int rank = std::exchange(first_rank, first_rank + node.info.workers);
      if (!node.link && round->ended.contains(incarnation)) continue;
      auto& added = add(incarnation, node);
      added.group_rank = static_cast<int>(i);
      const bool has_begun = node.has_reported() && node.news.round == round->id;
      if (has_begun) added.state = state_of(node.news.state);
      if (has_begun) {
        added.workers = workers_of(node.news, rank);
        add_steps(added.is_leader ? own_steps : node.steps, added.workers);
      }
      if (!node.link) added.state = JobStatus::Node::State::kSuspected;
    }
  }
  for (const auto& [incarnation, node] : coordinator.nodes()) {
    if (!node.link || in_round.contains(incarnation)) continue;
    add(incarnation, node).state =
        round ? JobStatus::Node::State::kSpare : JobStatus::Node::State::kWaiting;
  }
  return status;
}

}  // namespace ddprun
