#pragma once

// The parts that a C++ program needs to be one rank of a job: its place among the ranks, and an
// exit that its launcher understands. Used by ddptrain and by examples/program/mnist.cpp.

#include "base/error.hpp"
#include "trainer/core/failure.hpp"
#include "trainer/core/filled_environment.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/process_group.hpp"

#include <exception>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace ddprun {

/// A failure after which a program cannot continue.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.detail), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// The value of `result`. Throws Failure if there is none: for programs without a caller that takes
/// a Result.
template <class T>
T need(Result<T> result) {
  if (!result) throw Failure(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// How a worker ends after `error`: with kExitTryAgain if a peer is lost, with kExitBadNumbers or
/// kExitBadFile.
TrainFailure failure_of(const Error& error);

/// The same for an exception. If a collective has timed out, this finds out from the other ranks
/// which one they wait for, which takes seconds.
TrainFailure failure_of(const std::exception& thrown);

/// Prepares this process to be a worker: a lost peer is an error and not a signal, files never get
/// the numbers of closed standard streams, a crash prints its stack to stderr, and freed tensors
/// stay in the process. Call it at the start of main().
void prepare_worker();

/// Sets the filled-in variables in this process, so that all readers of a variable see the same.
void take_on(const FilledEnvironment& environment);

/// Reports the reason on stderr, and to the agent in the error file; yields the exit status.
int end_by(const TrainFailure& failure);

/// Ends the process without destructors: torch's threads may still use what they would destroy, and
/// an exit that waits for a lost peer would delay the whole job.
[[noreturn]] void leave_worker(int exit_status);

/// All of main() for a program that trains: finds its place from the environment
/// (docs/training.md), joins its peers and calls `train`. An exception is reported in one line,
/// with the remedy and an exit status that tells ddprun whether to try again. stdout is written
/// line by line. Never returns.
[[noreturn]] void run_worker(
    const std::function<void(const WorkerPlace& place, const ProcessGroup& group)>& train);

}  // namespace ddprun
