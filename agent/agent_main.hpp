#pragma once

// The main function of the agent's process, from the fork to the exit status: it waits for signals,
// checks whether the endpoint is local, runs the Agent, and reports why it fails.

#include "agent/core/launch_plan.hpp"
#include "agent/guard.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <signal.h>

namespace ddprun {

/// How the whole job ended, as known by the node that reports for it.
struct FinishedJob {
  int exit_status = 0;
  int stopped_by = 0;  // the first signal that came to end the job; 0: none
  /// Hosts of nodes that fell silent and did not return, while this node led.
  std::set<std::string> silent_hosts;
};

/// What happened after the end of the job, for its events and for people.
struct LateEvent {
  std::string event;  // as JournalEntry::event
  std::string text;
};

/// Called once no worker of the job runs any more, on the node that reports for the job and on the
/// main thread.
using AfterJob = std::function<std::optional<LateEvent>(const FinishedJob&)>;

/// Runs this node's part of the job and yields the exit status (docs/reference.md): 75 if the
/// operating system refuses what is needed, 2 if a value of the plan is invalid, each with a line
/// on stderr.
///
/// REQUIRES: called once, in the process that got `began`, before other threads exist. `signals`
/// and SIGCHLD are blocked; they are read here.
int agent_main(LaunchPlan plan, sigset_t signals, AgentBegins began, const AfterJob& after_job);

}  // namespace ddprun
