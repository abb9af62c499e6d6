#pragma once

// The exit statuses of our programs. docs/operations.md says what to do about each.

namespace ddprun {

inline constexpr int kExitOk = 0;           // every rank of one round exited 0
inline constexpr int kExitRefused = 1;      // ddpctl: what it looked at is not as it has to be
inline constexpr int kExitUsage = 2;        // bad usage: one line, nothing started
inline constexpr int kExitBadNumbers = 65;  // ddptrain: the loss is no number, or weights differ
inline constexpr int kExitDefect = 70;      // a defect of ddprun itself
inline constexpr int kExitNoMemory = 71;    // ddptrain: more memory is needed than there is
inline constexpr int kExitTryAgain = 75;    // trying again may help: coordination lost, preempted
inline constexpr int kExitBadFile = 78;     // a file given to it is wrong
inline constexpr int kExitNotExecutable = 126;  // the program may not be executed
inline constexpr int kExitNotFound = 127;       // the program does not exist

/// The status of a process that was ended by `signal`, as shells count: 128 + n.
constexpr int exit_status_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace ddprun
