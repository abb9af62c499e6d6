#pragma once

// The error file of a worker (docs/worker_contract.md): what `record` of torch writes there when
// Python raises. It comes from user code, so nothing in it is trusted.

#include "base/error.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// What a worker said about its own end.
struct WorkerError {
  std::string message;    // "ValueError: boom"
  std::string traceback;  // Python's; empty if there was none
  bool operator==(const WorkerError&) const = default;
};

inline constexpr std::size_t kErrorFileBytesMax = 1 << 20;

/// Reads both forms, the nested one of `record` and the flat {"message": "text"}. A file that is
/// no JSON, or has no message, yields its own text as the message; an empty one yields none.
std::optional<WorkerError> parse_error_file(std::string_view content);

/// `content` with "errorCode" added inside "message", as torchrun's agent passes it up; unchanged
/// unless it is the nested form.
std::string with_error_code(std::string_view content, int code);

/// The error file of a worker; none if it wrote none, or more than kErrorFileBytesMax.
std::optional<std::string> read_error_file(const std::filesystem::path& path);

}  // namespace ddprun
