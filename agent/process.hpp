#pragma once

// Starting one worker. By vfork and execve of our own and not by Boost.Process: between the two
// calls a worker gets its session, its parent-death signal and its default signals, and the exact
// step and errno of a failure come back. docs/worker_contract.md says what a worker finds.

#include "agent/core/process_end.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

/// A program to be started as it stands: no shell, no search in PATH.
struct SpawnRequest {
  std::string program;
  std::vector<std::string> arguments;    // argv[1..]
  std::vector<std::string> environment;  // "NAME=value"; all of it
  int out = -1;                          // descriptor for stdout; -1: ours
  int err = -1;
  std::vector<int> keep;     // open in the worker as well, under whatever numbers: lifelines
  std::vector<int> ignored;  // signals that it ignores, until it says otherwise
  std::uint64_t open_files_max = 0;  // its soft limit; 0: ours
  std::set<int> cpus;                // it may run on; empty: on ours
  // It begins when SIGUSR1 comes, and lets itself be traced by anybody of this user. A notice by
  // that signal, from us, ends it, as any other signal does.
  bool waits = false;
};

/// A started process. Whoever started it reaps it, and only on the thread that also signals it.
struct Process {
  pid_t pid = 0;
  Descriptor pidfd;  // readable once it has ended; empty where the kernel has none
};

/// Starts a worker: leader of a session of its own, killed by the kernel when the calling thread
/// ends, no signal blocked and each with its default action, but for those to be ignored.
///
/// REQUIRES: called on the main thread, since the parent-death signal follows the thread. Fails
/// with kNotFound or kNotExecutable by what execve said, kIo when no process could be made.
Result<Process> spawn(const SpawnRequest& request);

/// What waitpid() tells.
ProcessEnd end_of(int wait_status);

/// Whether a process has a handler of its own for `signal`.
bool has_handler(pid_t pid, int signal);

/// Whether the end of a child has begun, which it has before any of its connections is closed by
/// the kernel. False where that is not to be seen.
bool is_ending(pid_t pid);

/// The command line of a process, as one line of at most 80 characters; "?" if it cannot be read.
std::string command_of(pid_t pid);

/// What a process waits for inside the kernel; "?" where that is not to be seen.
std::string wait_channel(pid_t pid);

}  // namespace ddprun
