#pragma once

#include "base/error.hpp"
#include "rendezvous/core/status.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// More than the largest job needs: 16,384 nodes of 8 workers.
inline constexpr std::size_t kStatusBytesMax = std::size_t{32} * 1024 * 1024;

/// `status` as one JSON object and a newline, as docs/operations.md describes it. A text that is no
/// UTF-8 has its bad bytes replaced.
std::string to_json(const JobStatus& status);

/// Reads what to_json wrote, here or in a later version: a field that is not known is passed over.
/// Fails with kProtocol, naming the field that is missing, of another type or out of its range.
Result<JobStatus> parse_status(std::string_view json);

}  // namespace ddprun
