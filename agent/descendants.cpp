#include "agent/descendants.hpp"

#include "base/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kRescanAfter = 10ms;  // after no child has ended: a quick scan may have missed one

bool is_one_of(std::span<const pid_t> few, pid_t pid) {
  return std::ranges::find(few, pid) != few.end();
}

/// Never another process that got the pid of one that has just ended: the descriptor is opened
/// first, and only then the parent is checked.
bool signal_one(pid_t pid, const DescendantWalk& walk, int signal) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!walk.has(pid)) return false;
  if (!process) return ::kill(pid, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

/// Reaps every child that has ended. False if we have no child at all.
bool reap(bool& reaped_any) {
  for (;;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return false;
    reaped_any = true;
  }
}

/// Waits until a child ends, at most for `wait`.
void await_a_death(Duration wait) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (wait - seconds).count()};
  ::sigtimedwait(&child, nullptr, &limit);
}

}  // namespace

bool become_subreaper() {
  return ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

bool is_subreaper() {
  int is_one = 0;
  return ::prctl(PR_GET_CHILD_SUBREAPER, &is_one) == 0 && is_one != 0;
}

DescendantWalk::DescendantWalk(pid_t root, Search search, const Spared& spared)
    : root_(root), spared_(spared) {
  if (search == Search::kQuick && lists_children() && list_family()) return;
  size_ = 0;
  everybody_.emplace("/proc");
}

std::optional<pid_t> DescendantWalk::next() {
  while (const auto pid = everybody_ ? everybody_->next() : next_of_family()) {
    if (everybody_) {
      if (!is_found(*pid)) continue;
      if (size_ < family_.size()) family_.at(size_++) = *pid;
    }
    if (is_to_be_seen(*pid)) return pid;
  }
  return std::nullopt;
}

bool DescendantWalk::has(pid_t pid) const {
  // A parent that ends meanwhile leaves its children to a sub-reaper, which is of the family too.
  while (!is_one_of(spared_.families, pid)) {
    const auto stat = stat_of(pid);
    if (!stat || stat->parent == 0) return false;
    if (is_family(stat->parent)) return true;
    pid = stat->parent;
  }
  return false;
}

/// As has(), but reads about each parent once: most processes of a machine have one of a few.
bool DescendantWalk::is_found(pid_t pid) {
  const auto stat = stat_of(pid);
  if (!stat || stat->parent == 0 || is_one_of(spared_.families, pid)) return false;
  if (is_family(stat->parent)) return true;
  if (is_one_of(strangers_, stat->parent)) return false;
  if (has(stat->parent)) return true;
  strangers_.at(strangers_known_++ % strangers_.size()) = stat->parent;
  return false;
}

/// False if they are too many.
bool DescendantWalk::list_family() {
  if (!list_children(root_)) return false;
  for (std::size_t i = 0; i < size_; ++i) {
    if (!list_children(family_.at(i))) return false;
  }
  return true;
}

bool DescendantWalk::list_children(pid_t parent) {
  ProcChildren children(parent);
  while (const auto child = children.next()) {
    if (is_one_of(spared_.families, *child)) continue;
    if (size_ == family_.size()) return false;
    family_.at(size_++) = *child;
  }
  return true;
}

std::optional<pid_t> DescendantWalk::next_of_family() {
  if (at_ == size_) return std::nullopt;
  return family_.at(at_++);
}

bool DescendantWalk::is_family(pid_t pid) const {
  return pid == root_ || is_one_of(std::span(family_).first(size_), pid);
}

bool DescendantWalk::is_to_be_seen(pid_t pid) const {
  const auto stat = stat_of(pid);
  return stat && !stat->is_ended &&
         (spared_.groups.empty() || !is_one_of(spared_.groups, ::getpgid(pid)));
}

std::vector<pid_t> descendants_of(pid_t root, Search search) {
  std::vector<pid_t> found;
  DescendantWalk walk(root, search);
  while (const auto pid = walk.next()) {
    found.push_back(*pid);
  }
  return found;
}

int signal_descendants(int signal, Search search, const Spared& spared) {
  int reached = 0;
  DescendantWalk walk(::getpid(), search, spared);
  while (const auto pid = walk.next()) {
    if (signal_one(*pid, walk, signal)) ++reached;
  }
  return reached;
}

bool kill_descendants(TimePoint deadline, const Spared& spared) {
  Search search = Search::kQuick;
  for (;;) {
    const bool reached_any = signal_descendants(SIGKILL, search, spared) > 0;
    bool reaped_any = false;
    if (!reap(reaped_any)) return true;
    if (Clock::now() >= deadline) {
      return !DescendantWalk(::getpid(), Search::kThorough, spared).next();
    }
    // If some are spared, we always have a child.
    const bool quiet = !reached_any && !reaped_any && !spared.families.empty();
    if (quiet && search == Search::kThorough) return true;
    if (quiet) {
      search = Search::kThorough;
      continue;
    }
    // The children of a dead parent become ours before we can reap it, so each death may bring new
    // processes to kill. If none died for a while, a quick scan has missed one.
    search = Search::kQuick;
    if (reaped_any) continue;
    const TimePoint before = Clock::now();
    await_a_death(kRescanAfter);
    if (Clock::now() - before >= kRescanAfter) search = Search::kThorough;
  }
}

}  // namespace ddprun
