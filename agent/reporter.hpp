#pragma once

// Reports to people how a round begins, if that is wanted, and how it failed. Collects what streams
// and workers know, and lets the journal's thread read the rest and write the paragraph.

#include "agent/core/failure_report.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/journal.hpp"
#include "agent/streams.hpp"
#include "agent/worker_group.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/errand.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class Reporter {
 public:
  /// All of these outlive the reporter.
  struct Sources {
    const LaunchPlan& plan;
    const std::string& host;
    const Streams& streams;
    const WorkerGroup& workers;
    Journal& journal;
  };

  explicit Reporter(const Sources& from) : from_(from) {}

  /// Prints what runs, on the node of rank 0, if the plan has a header. `interface` is what workers
  /// are told to use; empty: none.
  void attempt_begins(const effects::StartWorkers& round, const std::string& interface);

  /// Prints which process waits for a debugger.
  void worker_waits(int rank, pid_t pid);

  /// Notes how this node's workers failed, while their details are still known.
  void note(const Supervisor::News& news, const effects::StartWorkers& round);

  /// Notes what follows the noted failure.
  void conclude(const Outcome& outcome);

  /// Forgets the noted failure: it is not one.
  void forget() { noted_.reset(); }

  /// Whether a failure was noted, and what follows is not yet known.
  bool has_noted() const { return noted_ && !is_concluded_; }

  /// The last output of a failed worker, once the journal's thread has read it.
  struct LastOutput {
    RoundId round;
    int rank = 0;
    std::shared_ptr<Errand<std::vector<TextLine>>>
        lines;  // null: no descriptor was left to wait for them
  };

  /// Reports what was noted and concluded, if anything, and returns what is read for it.
  std::optional<LastOutput> report();

  /// Lets the journal's thread read the last line of the output of `failure` (comparable_line).
  /// Null: no descriptor was left to wait for it.
  std::shared_ptr<Errand<std::string>> read_last_line(
      const WorkerFailure& failure, const effects::StartWorkers& round) const;

 private:
  StderrShown shown(int local_rank) const;
  FailureDetails details_of(const WorkerFailure& failure, const effects::StartWorkers& round) const;
  LastLines last_lines_of(int attempt, const FailureDetails& details) const;

  Sources from_;
  std::optional<FailureReport> noted_;
  RoundId round_;  // of the noted failure
  bool is_concluded_ = false;
};

}  // namespace ddprun
