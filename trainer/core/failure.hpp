#pragma once

// What an exception of torch means to us. Torch throws one type for a lost peer, a full disk and a
// defect; the text tells them apart.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Why training could not go on.
struct TrainFailure {
  int exit_status = 0;
  std::string message;  // one line: what happened and what to do
};

/// By what torch or gloo wrote: a lost peer or store is worth another try (kExitTryAgain), memory
/// that is not there is the job's (kExitNoMemory), all else is a defect (kExitDefect). Only the
/// first line of `what` is kept, since a stack follows it.
TrainFailure classify_failure(std::string_view what);

/// Whether gloo wrote that a peer kept it waiting for too long.
bool is_timeout(std::string_view what);

/// What to say then, where it is known whom all wait for (kExitTryAgain). REQUIRES: at least one.
TrainFailure kept_waiting_by(const std::vector<int>& ranks);

/// The error file of a worker: {"message": {"message": …, "extraInfo": {"py_callstack": …,
/// "timestamp": …}}}, which torchrun and ddprun both read. `seconds` since 1970.
std::string error_file_json(std::string_view message, std::int64_t seconds);

}  // namespace ddprun
