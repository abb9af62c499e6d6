#pragma once

// A worker that ended badly, and which of several is the cause.

#include "agent/core/process_end.hpp"
#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// One worker that ended badly, or that we stopped because another one did.
struct WorkerFailure {
  int local_rank = 0;
  int pid = 0;  // 0: it could not be started
  ProcessEnd end;
  TimePoint at;
  // We had sent it a signal before it ended, and no other signal ended it.
  bool stopped_by_us = false;
  std::string start_error;     // why it could not be started; empty if it was
  bool can_be_retried = true;  // false: the program cannot be executed, so no restart would help

  /// For people: "exited with status 1", or why it could not be started.
  std::string how() const;

  /// Whether it has saved, if it was told to.
  bool has_saved() const { return contract::has_saved(worker_end()); }
  bool may_come_of_notice() const { return contract::may_come_of_notice(worker_end()); }
  Suspicion suspicion() const { return ddprun::suspicion(worker_end()); }

  bool operator==(const WorkerFailure&) const = default;

 private:
  contract::WorkerEnd worker_end() const {
    return {.pid = pid, .exit_status = end.code, .signal = end.signal};
  }
};

/// Moves the most likely cause to the front: of the most suspicious failures, the first. The others
/// keep their order.
void put_culprit_first(std::vector<WorkerFailure>& failures);

}  // namespace ddprun
