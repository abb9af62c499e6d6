#pragma once

// The guard: the process that the user or srun started, and the parent of the agent.
//
//     guard  ⊃  agent  ⊃  workers  ⊃  what they start
//
// Guard and agent are both sub-reapers. When one of them dies, the other kills every process below
// it, except what --leftover keep leaves after a success. The guard gets SIGCHLD; the agent reads
// end of file on a socket whose other end only the guard holds. If both are killed at the same
// instant, the kernel kills the workers by their parent-death signal.
//
// The survivor of the two sends the goodbye to the nodes that this one led, once no process of the
// job is left here. If the kernel lets nobody adopt orphans, the survivor cannot know that: it
// kills what it sees, sends no goodbye, and the other nodes wait for the lease.
//
// If this node's lease ends and its agent does nothing, because it is stopped or gets no CPU time,
// the guard kills the agent first and then the rest (R8).
//
// The guard forks the agent before any thread exists, waits in one system call, and passes signals
// down and the exit status up. It uses little memory, and allocates none once an agent runs: it
// must also work on a machine that has none left. What it needs then lies in fixed buffers.

#include "agent/guard_channel.hpp"
#include "base/descriptor.hpp"

#include <set>
#include <variant>

#include <signal.h>

namespace ddprun {

/// This process is the agent now.
struct AgentBegins {
  Descriptor guard;  // for orders; readable (end of file) once the guard has ended
  SharedLease* lease = nullptr;
  bool took_part = false;  // an earlier agent of this guard had workers
  bool returns = false;    // replaces an agent whose lease ran out while the node was suspended
};

/// This process was the guard, and the agent has ended.
struct GuardEnded {
  int exit_status = 0;
};

/// Forks the agent, and another one each time that the node was suspended for longer than its
/// lease. Returns in every process: at once in an agent; in the guard once no process of the job is
/// left.
///
/// REQUIRES: the caller's thread is the only one; `signals` and SIGCHLD are blocked. The guard
/// forwards `signals` to the agent.
std::variant<AgentBegins, GuardEnded> fork_agent(const sigset_t& signals);

/// For the agent after the guard has ended: kills every process below it, sends the goodbye on
/// `ends` if it knows that none is left, and ends this process without waiting for its threads.
/// Allocates no memory.
[[noreturn]] void end_without_guard(const std::set<int>& ends);

}  // namespace ddprun
