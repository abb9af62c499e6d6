#pragma once

// What /proc says about processes, read without memory from the heap: the guard kills what is left
// of a job when the machine may have no memory left.

#include "base/descriptor.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace ddprun {

/// The processes of the machine, or the threads of one, in the order of the kernel's list. Those
/// that start or end meanwhile may be left out.
class ProcNumbers {
 public:
  /// "/proc", or "/proc/<pid>/task". Yields nothing if that cannot be read.
  explicit ProcNumbers(const char* directory);

  /// The next one; none at the end.
  std::optional<pid_t> next();

 private:
  std::string_view next_name();

  Descriptor directory_;
  alignas(8) std::array<char, 4096> entries_{};  // as getdents64 writes them
  std::size_t size_ = 0;
  std::size_t at_ = 0;
};

/// A part of what /proc/<pid>/stat says.
struct ProcStat {
  pid_t parent = 0;
  bool is_ended = false;            // with all of its threads, and waits to be reaped
  bool is_ending = false;           // the first thread has ended, or begins to
  bool is_uninterruptible = false;  // waits inside the kernel, where no signal ends the wait
};

/// None if there is no such process, or it cannot be seen.
std::optional<ProcStat> stat_of(pid_t pid);

/// Whether a child has begun to end, which is before the kernel closes any of its connections.
/// False if that cannot be seen.
bool is_ending(pid_t pid);

/// A name of the kernel's, which ends with a zero and may be cut off.
using KernelName = std::array<char, 64>;

/// What a thread of the process waits for inside the kernel, if no signal ends that wait.
std::optional<KernelName> uninterruptible_wait(pid_t pid);

/// What a process waits for inside the kernel; "?" if that cannot be seen.
KernelName wait_channel(pid_t pid);

/// Whether the kernel lists the children of each thread (CONFIG_PROC_CHILDREN).
bool lists_children();

/// The kernel's list of a process's children.
class ProcChildren {
 public:
  explicit ProcChildren(pid_t parent);

  /// The next one; none at the end.
  std::optional<pid_t> next();

 private:
  bool read_more();

  pid_t parent_;
  ProcNumbers threads_;
  Descriptor list_;  // of one thread
  std::array<char, 4096> text_{};
  std::size_t size_ = 0;
  std::size_t at_ = 0;
};

}  // namespace ddprun
