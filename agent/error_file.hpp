#pragma once

// The error file of a worker (docs/worker_contract.md): what torch's `record` writes when Python
// raises an exception. It comes from user code, so nothing in it is trusted.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// What a worker reported about its own end.
struct WorkerError {
  std::string message;    // "ValueError: boom"
  std::string traceback;  // Python's; empty if there was none
  bool operator==(const WorkerError&) const = default;
};

/// A larger one is not read.
inline constexpr std::size_t kErrorFileBytesMax = 1 << 20;

/// Reads both forms, the nested one of `record` and the flat {"message": "text"}. If the file is
/// not JSON or has no message, its own text is the message. An empty file yields none.
std::optional<WorkerError> parse_error_file(std::string_view content);

/// `content` with "errorCode" added inside "message", as torchrun's agent passes it up. Anything
/// but the nested form is returned unchanged.
std::string with_error_code(std::string_view content, int code);

}  // namespace ddprun
