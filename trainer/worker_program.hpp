#pragma once

// What a C++ program needs to be one rank of a job: where it stands among the others, and an end
// that its launcher understands. ddptrain is such a program, and so is examples/program/mnist.cpp.

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

/// A failure that a program cannot go on from.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.detail), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// What is in `result`. Throws Failure where there is nothing: for programs that have nobody to
/// hand a Result to.
template <class T>
T need(Result<T> result) {
  if (!result) throw Failure(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// How a worker ends by `error`: with kExitTryAgain where a peer is lost, with
/// kExitBadNumbers or kExitBadFile.
TrainFailure failure_of(const Error& error);

/// The same for what was thrown. Where a collective has timed out this asks the others who it is
/// that all wait for, which takes seconds.
TrainFailure failure_of(const std::exception& thrown);

/// Prepares this process to be a worker: a peer that is gone is an error and no signal, closed
/// standard streams are no file's, a crash leaves its stack on stderr, and freed tensors stay in
/// the process. For the start of main().
void prepare_worker();

/// What was filled in becomes this process's, so that whatever reads a variable sees the same.
void take_on(const FilledEnvironment& environment);

/// Says why on stderr, and to the agent in the error file; yields the exit status.
int end_by(const TrainFailure& failure);

/// Ends the process without destructors: torch's threads may still hold what they would tear down,
/// and an exit that waits for a lost peer would keep the whole job waiting.
[[noreturn]] void leave_worker(int exit_status);

/// All of main() for a program that trains: finds its place by the environment (docs/training.md),
/// joins its peers and calls `train`. What that throws is said in one line, with the remedy and an
/// exit status by which ddprun knows whether to try again. stdout is written line by line. Never
/// returns.
[[noreturn]] void run_worker(
    const std::function<void(const WorkerPlace& place, const ProcessGroup& group)>& train);

}  // namespace ddprun
