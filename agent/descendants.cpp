#include "agent/descendants.hpp"

#include "base/descriptor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPathBytes = 64;
constexpr auto kRescanAfter = 10ms;  // after no child has ended: a quick scan may have missed one

using Path = std::array<char, kPathBytes>;

struct Parentage {
  pid_t parent = 0;
  bool is_zombie = false;
};

/// The start of a small file of /proc; 0 bytes if it cannot be read.
std::size_t read_some(const char* path, char* buffer, std::size_t size) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  const ssize_t got = ::read(file.get(), buffer, size);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

/// State and parent from /proc/<pid>/stat; parent 0 if there is no such process.
Parentage parentage_of(pid_t pid) {
  Path path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  std::array<char, 512> text{};
  const std::size_t size = read_some(path.data(), text.data(), text.size() - 1);
  if (size == 0) return {};
  // The name is in parentheses and may contain any byte, so parse from the last parenthesis.
  const char* end_of_name = std::strrchr(text.data(), ')');
  if (end_of_name == nullptr || std::strlen(end_of_name) < 4) return {};
  return {
      .parent = static_cast<pid_t>(std::strtol(end_of_name + 4, nullptr, 10)),
      .is_zombie = end_of_name[2] == 'Z' || end_of_name[2] == 'X'};
}

/// Calls `use` with every entry of a directory whose name is a number.
template <class Use>
bool for_each_number(const char* path, Use use) {
  DIR* directory = ::opendir(path);
  if (directory == nullptr) return false;
  while (const dirent* entry = ::readdir(directory)) {
    const long number = std::strtol(entry->d_name, nullptr, 10);
    if (number > 0) use(static_cast<pid_t>(number));
  }
  ::closedir(directory);
  return true;
}

void append_numbers(const char* path, std::vector<pid_t>& out) {
  std::array<char, 4096> text{};
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return;
  pid_t number = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got <= 0) return;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = text[static_cast<std::size_t>(i)];
      if (c >= '0' && c <= '9') {
        number = number * 10 + (c - '0');
      } else if (number > 0) {
        out.push_back(number);
        number = 0;
      }
    }
  }
}

/// From the kernel's own lists, if it was built with them (CONFIG_PROC_CHILDREN).
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  Path tasks{};
  std::snprintf(tasks.data(), tasks.size(), "/proc/%d/task", parent);
  for_each_number(tasks.data(), [&](pid_t thread) {
    Path list{};
    std::snprintf(list.data(), list.size(), "/proc/%d/task/%d/children", parent, thread);
    append_numbers(list.data(), children);
  });
  return children;
}

bool has_children_lists() {
  Path list{};
  std::snprintf(list.data(), list.size(), "/proc/self/task/%d/children", ::getpid());
  return ::access(list.data(), R_OK) == 0;
}

std::multimap<pid_t, pid_t> children_of_all() {
  std::multimap<pid_t, pid_t> children;
  for_each_number("/proc", [&](pid_t pid) {
    const Parentage found = parentage_of(pid);
    if (found.parent > 0) children.emplace(found.parent, pid);
  });
  return children;
}

bool is_one_of(const std::vector<pid_t>& few, pid_t pid) {
  return std::ranges::find(few, pid) != few.end();
}

/// Never another process that got the pid of one that has just ended: the descriptor is opened
/// first, and only then the parent is checked.
bool signal_one(pid_t pid, const std::set<pid_t>& family, int signal) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!family.contains(parentage_of(pid).parent)) return false;
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

void become_subreaper() {
  // Kernels before 3.4 cannot do this. Then orphans are lost, and nothing here can change that.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> descendants_of(pid_t root, Search search, const Spared& spared) {
  const bool quick = search == Search::kQuick && has_children_lists();
  std::multimap<pid_t, pid_t> all;
  if (!quick) all = children_of_all();

  std::vector<pid_t> found{root};
  const auto add = [&](pid_t child) {
    if (!is_one_of(spared.families, child)) found.push_back(child);
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (quick) {
      std::ranges::for_each(children_of(found[i]), add);
      continue;
    }
    const auto [first, last] = all.equal_range(found[i]);
    for (auto child = first; child != last; ++child) {
      add(child->second);
    }
  }
  found.erase(found.begin());
  std::erase_if(found, [&](pid_t pid) {
    const Parentage is = parentage_of(pid);
    return is.parent == 0 || is.is_zombie || is_one_of(spared.groups, ::getpgid(pid));
  });
  return found;
}

int signal_descendants(int signal, Search search, const Spared& spared) {
  const auto descendants = descendants_of(::getpid(), search, spared);
  std::set<pid_t> family(descendants.begin(), descendants.end());
  family.insert(::getpid());
  const auto reaches = [&](pid_t pid) { return signal_one(pid, family, signal); };
  return static_cast<int>(std::ranges::count_if(descendants, reaches));
}

std::vector<pid_t> kill_descendants(TimePoint deadline, const Spared& spared) {
  Search search = Search::kQuick;
  for (;;) {
    const bool reached_any = signal_descendants(SIGKILL, search, spared) > 0;
    bool reaped_any = false;
    if (!reap(reaped_any)) return {};
    if (Clock::now() >= deadline) return descendants_of(::getpid(), Search::kThorough, spared);
    // If some are spared, we always have a child.
    const bool quiet = !reached_any && !reaped_any && !spared.families.empty();
    if (quiet && search == Search::kThorough) return {};
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
