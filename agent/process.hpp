#pragma once

// Starts processes by the vfork launcher of Boost.Process. Between vfork and exec a worker gets its
// session, its parent-death signal and its default signals, and the exact step and errno of a
// failure come back. docs/worker_contract.md describes what a worker finds.

#include "agent/core/process_end.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

/// A program to start as it stands: no shell, no search in PATH.
struct SpawnRequest {
  std::vector<std::string> command;      // the program's path, and its arguments
  std::vector<std::string> environment;  // "NAME=value"; all of it
  int in = -1;                           // descriptor for stdin; -1: ours
  int out = -1;
  int err = -1;
  std::vector<int> keep;             // also open in the program, under any number: lifelines
  std::vector<int> ignored;          // signals that it ignores until it decides otherwise
  std::uint64_t open_files_max = 0;  // its soft limit; 0: ours
  std::set<int> cpus;                // that it may run on; empty: ours
  // Starts when SIGUSR1 comes, and lets any process of this user trace it. A notice by that signal,
  // from us, ends it, as any other signal does.
  bool waits = false;
  // Stays in our session and with our ignored signals, and may outlive us: for what a person runs.
  bool foreground = false;
};

/// A started process. One thread signals and reaps it, and no other thread does.
struct Process {
  pid_t pid = 0;
  Descriptor pidfd;  // readable when it has ended; empty if the kernel has none
};

/// Starts a program: leader of its own session, killed by the kernel when the calling thread ends,
/// no signal blocked and each with its default action, except `ignored` and for `foreground`.
///
/// REQUIRES: called on a thread that lives as long as the process may, since the parent-death
/// signal follows the thread. Waits until the program is executed, which a disk may delay without
/// limit. Fails with kNotFound or kNotExecutable as execve reports, or kIo if no process could be
/// made.
Result<Process> spawn(const SpawnRequest& request);

/// A child of this process. REQUIRES: nobody has reaped it.
Process process_of(pid_t child);

/// What a status of waitpid() means.
ProcessEnd end_of(int wait_status);

/// Whether a process has a handler of its own for `signal`.
bool has_handler(pid_t pid, int signal);

/// The command line of a process, as one line of at most 80 characters; "?" if it cannot be read.
std::string command_of(pid_t pid);

}  // namespace ddprun
