#pragma once

// The guard: the process that the user or srun started, and the parent of the agent.
//
//     guard  ⊃  agent  ⊃  workers  ⊃  whatever they start
//
// Guard and agent are both sub-reapers, and each ends every process below it when it sees the
// other die, but for what --leftover keep leaves after a success: the guard hears of its child, the
// agent of the end of a socket whose other end only the guard holds. If both are killed at one
// blow, the kernel kills the workers by their parent-death signal.
//
// Whichever of the two is left says, once nothing else is, goodbye to the nodes that this one led.
// And when this node's lease runs out while its agent does nothing about it, stopped or starved,
// the guard kills the agent first and then the rest (R8).
//
// The guard is forked before any thread exists, has no memory of its own to speak of, waits in one
// system call, passes signals down and the exit status up.

#include "agent/guard_channel.hpp"
#include "base/descriptor.hpp"

#include <span>
#include <variant>

#include <signal.h>

namespace ddprun {

/// This process is the agent now.
struct AgentBegins {
  Descriptor guard;  // orders go there; readable, at its end, once the guard has ended
  SharedLease* lease = nullptr;
  bool took_part = false;  // an earlier one below this guard had workers
  bool returns = false;    // in place of one whose lease ran out while the node was suspended
};

/// This process was the guard, and the agent has ended.
struct GuardEnded {
  int exit_status = 0;
};

/// Forks the agent, and another one each time that the node was suspended for longer than its
/// lease. Returns in all processes: at once in an agent, in the guard once nothing of the job is
/// left.
///
/// REQUIRES: no thread but the caller's exists, and `signals` with SIGCHLD are blocked; the guard
/// sends each of them that it gets on to the agent.
std::variant<AgentBegins, GuardEnded> fork_agent(const sigset_t& signals);

/// For the agent, once the guard is gone: ends every process below it, says goodbye on `ends`, and
/// ends this process, without waiting for its threads.
[[noreturn]] void end_without_guard(std::span<const int> ends);

}  // namespace ddprun
