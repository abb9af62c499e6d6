#pragma once

// The meaning of torch's exceptions. Torch throws one type for a lost peer, a full disk and a bug;
// only the text distinguishes them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Why training cannot continue.
struct TrainFailure {
  int exit_status = 0;
  std::string message;  // one line: what happened and what to do
};

/// Classifies by the text of torch or gloo: after a lost peer or store another try may help
/// (kExitTryAgain), missing memory is the job's problem (kExitNoMemory), all else is a bug
/// (kExitDefect). Keeps only the first line of `what`, because a stack trace follows it.
TrainFailure classify_failure(std::string_view what);

/// Whether gloo wrote that a peer kept it waiting for too long.
bool is_timeout(std::string_view what);

/// The failure in that case if the late ranks are known (kExitTryAgain). REQUIRES: at least one.
TrainFailure kept_waiting_by(const std::vector<int>& ranks);

/// The error file of a worker: {"message": {"message": …, "extraInfo": {"py_callstack": …,
/// "timestamp": …}}}, which torchrun and ddprun both read. `seconds` since 1970.
std::string error_file_json(std::string_view message, std::int64_t seconds);

}  // namespace ddprun
