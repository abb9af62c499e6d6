#include "agent/descendants.hpp"

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

namespace fs = std::filesystem;

constexpr std::size_t kChildrenBytesMax = std::size_t{1} << 20U;
constexpr auto kRescanAfter = 10ms;  // after no child has ended: a quick scan may have missed one

struct Parentage {
  pid_t parent = 0;
  bool is_zombie = false;
};

/// State and parent from /proc/<pid>/stat; parent 0 if there is no such process.
Parentage parentage_of(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), kChildrenBytesMax);
  if (!text) return {};
  // The name is in parentheses and may contain any byte. Then: state, parent.
  const auto fields = split(std::string_view(*text).substr(text->rfind(')') + 1), ' ');
  if (fields.size() < 3) return {};
  return {
      .parent = parse_int<pid_t>(fields[2]).value_or(0),
      .is_zombie = fields[1] == "Z" || fields[1] == "X"};
}

/// The names in a directory that are numbers.
std::vector<pid_t> numbers_in(const fs::path& directory) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto number = parse_int<pid_t>(entry->path().filename().native());
    if (number) numbers.push_back(*number);
  }
  return numbers;
}

/// The kernel's list of a thread's children, if it was built with them (CONFIG_PROC_CHILDREN).
fs::path children_list(pid_t process, pid_t thread) {
  return fmt::format("/proc/{}/task/{}/children", process, thread);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t thread : numbers_in(fmt::format("/proc/{}/task", parent))) {
    const auto list = read_file(children_list(parent, thread), kChildrenBytesMax);
    if (!list) continue;
    for (const auto number : split(*list, ' ')) {
      if (const auto child = parse_int<pid_t>(number)) children.push_back(*child);
    }
  }
  return children;
}

std::multimap<pid_t, pid_t> children_of_all() {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : numbers_in("/proc")) {
    const Parentage found = parentage_of(pid);
    if (found.parent > 0) children.emplace(found.parent, pid);
  }
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
  const bool quick = search == Search::kQuick &&
                     ::access(children_list(::getpid(), ::getpid()).c_str(), R_OK) == 0;
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
