#pragma once

// All processes that descend from this one, whatever session or group they moved to. A sub-reaper
// (become_subreaper) adopts the orphans below it, so nothing can leave its tree.
//
// Without Asio or threads, because the guard uses it too.

#include "base/time.hpp"

#include <vector>

#include <sys/types.h>

namespace ddprun {

/// Makes this process adopt the orphans among its descendants, until it ends.
void become_subreaper();

/// How thoroughly to scan /proc.
enum class Search {
  kQuick,  // the kernel's lists of children: microseconds, may miss a process that forks right now
  kThorough,  // every process of the machine, by its parent
};

/// Processes to leave alone.
struct Spared {
  std::vector<pid_t> families;  // these processes and their descendants
  std::vector<pid_t> groups;    // processes in one of these process groups
};

/// Living descendants of `root`, parents before their children, without zombies.
std::vector<pid_t> descendants_of(pid_t root, Search search, const Spared& spared = {});

/// Sends `signal` to every descendant of this process. Returns how many it reached.
int signal_descendants(int signal, Search search, const Spared& spared = {});

/// Kills all our descendants with SIGKILL until none is left, and reaps them. Returns those that
/// are still there at `deadline`: in uninterruptible sleep, or not ours to kill.
///
/// REQUIRES: SIGCHLD is blocked in the calling thread.
std::vector<pid_t> kill_descendants(TimePoint deadline, const Spared& spared = {});

}  // namespace ddprun
