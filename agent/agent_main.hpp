#pragma once

// What the agent's process does from the fork to its exit status: it waits for signals, looks
// whether the endpoint is here, runs the Agent, and says why it ends.

#include "agent/core/launch_plan.hpp"
#include "agent/guard.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <signal.h>

namespace ddprun {

/// How the whole job ended, as known by the node that speaks for it.
struct FinishedJob {
  int exit_status = 0;
  int stopped_by = 0;  // the first signal that came to end the job; 0: none
  /// Hosts of nodes that fell silent and did not come back, as far as this node led.
  std::set<std::string> silent_hosts;
};

/// What happened after the end of the job, for its events and for people.
struct LateEvent {
  std::string event;  // as JournalEntry::event
  std::string text;
};

/// What is left to do when no worker of the job runs any more; called on the node that speaks for
/// the job, on the main thread.
using AfterJob = std::function<std::optional<LateEvent>(const FinishedJob&)>;

/// Runs this node's part of the job, and yields the exit status (docs/reference.md) after a line on
/// stderr that says why, if that is known here alone. 75 if the operating system refuses what is
/// needed, 2 if a value of the plan makes no sense.
///
/// REQUIRES: called once, on the only thread, in the process that `began` says is the agent;
/// `signals` and SIGCHLD are blocked, and are read here.
int agent_main(LaunchPlan plan, sigset_t signals, AgentBegins began, const AfterJob& after_job);

}  // namespace ddprun
