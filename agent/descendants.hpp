#pragma once

// Everything that descends from this process, whatever session or group it moved to. A sub-reaper
// (become_subreaper) adopts the orphans below it, so nothing can leave its tree.
//
// Kept without Asio, allocation-heavy code and threads: the guard uses it as well.

#include "base/time.hpp"

#include <vector>

#include <sys/types.h>

namespace ddprun {

/// Makes orphans among our descendants our children. Lasts until the process ends.
void become_subreaper();

/// How thorough a look at /proc is.
enum class Search {
  kQuick,     // the kernel's lists of children: microseconds, may miss one that forks right now
  kThorough,  // every process of the machine by its parent
};

/// Whom to leave alone.
struct Spared {
  std::vector<pid_t> families;  // these processes, and whoever descends from them
  std::vector<pid_t> groups;    // who is in one of these process groups
};

/// Living descendants of `root`, parents before their children; zombies are not among them.
std::vector<pid_t> descendants_of(pid_t root, Search search, const Spared& spared = {});

/// Sends `signal` to every descendant of ours. Returns how many it reached.
int signal_descendants(int signal, Search search, const Spared& spared = {});

/// SIGKILL to all our descendants, again and again until none is left, reaping them. Whoever is
/// still there at `deadline` is returned: in uninterruptible sleep, or not ours to kill.
///
/// REQUIRES: SIGCHLD is blocked in the calling thread.
std::vector<pid_t> kill_descendants(TimePoint deadline, const Spared& spared = {});

}  // namespace ddprun
