#pragma once

// All processes that descend from this one, whatever session or group they moved to. A sub-reaper
// (become_subreaper) adopts the orphans below it, so nothing can leave its tree.
//
// Without Asio, threads or memory from the heap, because the guard uses it too; only
// descendants_of() allocates.

#include "agent/proc.hpp"
#include "base/time.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <sys/types.h>

namespace ddprun {

/// Makes this process adopt the orphans among its descendants, until it ends. False, with errno
/// set, if that is refused, as by a seccomp filter of a container: then it never sees them again.
bool become_subreaper();

/// Whether become_subreaper() has succeeded in this process.
bool is_subreaper();

/// How thoroughly to scan /proc.
enum class Search {
  kQuick,  // the kernel's lists of children: microseconds, may miss a process that forks right now
  kThorough,  // every process of the machine, by its parent
};

/// Processes to leave alone.
struct Spared {
  std::span<const pid_t> families;  // these processes and their descendants
  std::span<const pid_t> groups;    // processes in one of these process groups
};

/// One pass over the living descendants of a process, without zombies. A quick pass yields parents
/// before their children, a thorough one goes by their numbers. There may be any number of them,
/// and any of them may end meanwhile.
class DescendantWalk {
 public:
  /// What `spared` refers to outlives the walk.
  explicit DescendantWalk(pid_t root, Search search, const Spared& spared = {});

  /// The next one; none at the end.
  std::optional<pid_t> next();

  /// Whether the process that has this number now is one of them.
  bool has(pid_t pid) const;

 private:
  bool is_found(pid_t pid);
  bool list_family();
  bool list_children(pid_t parent);
  std::optional<pid_t> next_of_family();
  bool is_family(pid_t pid) const;
  bool is_to_be_seen(pid_t pid) const;

  pid_t root_;
  Spared spared_;
  std::optional<ProcNumbers> everybody_;  // of a thorough pass
  // Those that are known to descend from the root. A quick pass lists all of them first, and
  // becomes a thorough one if there are more.
  std::array<pid_t, 1024> family_{};
  std::size_t size_ = 0;
  std::size_t at_ = 0;                 // of a quick pass
  std::array<pid_t, 64> strangers_{};  // parents that are none of them: those found last
  std::size_t strangers_known_ = 0;
};

/// What a DescendantWalk yields.
std::vector<pid_t> descendants_of(pid_t root, Search search);

/// Sends `signal` to every descendant of this process. Returns how many it reached.
int signal_descendants(int signal, Search search, const Spared& spared = {});

/// Kills all our descendants with SIGKILL until none is left, and reaps them. False if some are
/// still there at `deadline`: in uninterruptible sleep, or not ours to kill.
///
/// REQUIRES: SIGCHLD is blocked in the calling thread.
bool kill_descendants(TimePoint deadline, const Spared& spared = {});

}  // namespace ddprun
