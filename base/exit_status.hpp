#pragma once

// The exit statuses of our programs. docs/reference.md says what to do about each.

namespace ddprun {

inline constexpr int kExitOk = 0;               // every rank of one round exited with 0
inline constexpr int kExitRefused = 1;          // ddpctl: a check failed
inline constexpr int kExitUsage = 2;            // bad usage: one line, nothing started
inline constexpr int kExitBadNumbers = 65;      // ddptrain: the loss is NaN, or weights differ
inline constexpr int kExitDefect = 70;          // a bug in ddprun itself
inline constexpr int kExitNoMemory = 71;        // ddptrain: not enough memory
inline constexpr int kExitTryAgain = 75;        // try again: coordination lost, preempted
inline constexpr int kExitBadFile = 78;         // an input file is invalid
inline constexpr int kExitNotExecutable = 126;  // the program is not executable
inline constexpr int kExitNotFound = 127;       // the program does not exist

/// The status of a process ended by `signal`, as in a shell: 128 + n.
constexpr int exit_status_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace ddprun
