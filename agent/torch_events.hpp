#pragma once

// --event-log-handler console: the events of torchrun's agent and its workers, in torchrun's
// format, for tools that read them. events.jsonl (journal.hpp) is ours, and has more.

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/journal.hpp"
#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace ddprun {

class TorchEvents {
 public:
  /// All of these outlive it. Without LaunchPlan::has_torch_events nothing is written.
  TorchEvents(const LaunchPlan& plan, const std::string& host, Journal& journal)
      : plan_(plan), host_(host), journal_(journal), began_(Clock::now()), waits_since_(began_) {}

  /// RENDEZVOUS, with its duration, and ASSIGN_WORKER_RANKS.
  void round_begins(const effects::StartWorkers& round);
  /// START
  void worker_started(int local_rank, pid_t pid);
  /// SUCCEEDED, FAILED, or TERMINATED if another worker's end was the cause.
  void worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool was_stopped);
  /// SUCCEEDED or FAILED, for the agent.
  void job_ended(int exit_status);

 private:
  struct Worker {
    int local_rank = 0;
    pid_t pid = 0;
    std::optional<int> exit_code;  // -n for signal n
  };

  void record(
      std::string_view state,
      const std::optional<Worker>& worker,
      std::optional<Duration> took = std::nullopt);

  const LaunchPlan& plan_;
  const std::string& host_;
  Journal& journal_;
  TimePoint began_;
  TimePoint waits_since_;  // for a round
  std::optional<TimePoint> ended_;
  effects::StartWorkers round_;
};

}  // namespace ddprun
