#pragma once

// The front process (the guard): what the user or srun started, and the parent of the agent.
//
//     front (guard)  ⊃  agent  ⊃  workers  ⊃  whatever they start
//
// Front and agent are both sub-reapers, and each ends every process below it when it sees the other
// die: the front hears of its child, the agent of the end of a pipe that only the front holds. If
// both are killed at one blow, the kernel kills the workers by their parent-death signal.
//
// The front is forked before any thread exists, has no memory of its own to speak of, waits in one
// system call, passes signals down and the exit status up.

#include "base/descriptor.hpp"

#include <variant>

#include <signal.h>

namespace ddprun {

/// This process is the agent now.
struct AgentBegins {
  Descriptor lifeline;  // readable, at its end, once the front has ended
};

/// This process was the front, and the agent has ended.
struct FrontEnded {
  int exit_status = 0;
};

/// Forks the agent and returns in both processes: at once in the agent, in the front once nothing
/// of the job is left.
///
/// REQUIRES: no thread but the caller's exists, and `signals` with SIGCHLD are blocked; the front
/// sends each of them that it gets on to the agent.
std::variant<AgentBegins, FrontEnded> fork_agent(const sigset_t& signals);

}  // namespace ddprun
