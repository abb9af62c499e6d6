#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

/// How one process ended.
struct ProcessEnd {
  int code = 0;                // the exit status; 0 if a signal ended it
  int signal = 0;              // the signal that ended it; 0: it exited
  bool out_of_memory = false;  // the kernel sent that signal because memory ran out
  bool hung = false;           // we sent it since training hung (--on-hang restart)

  bool ok() const { return code == 0 && signal == 0; }

  /// As in a shell: the exit status, or 128 + signal.
  int exit_status() const;

  /// "exited with status 3", "was ended by signal 9 (SIGKILL)",
  /// "was ended by signal 9 (SIGKILL, by the kernel: out of memory)",
  /// "was ended by signal 9 (SIGKILL, by ddprun: it hung)".
  std::string to_string() const;

  bool operator==(const ProcessEnd&) const = default;
};

}  // namespace ddprun
