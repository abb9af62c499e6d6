#pragma once

#include "base/error.hpp"
#include "rendezvous/core/status.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// More than the largest job needs: 16,384 nodes with 8 workers each.
inline constexpr std::size_t kStatusBytesMax = std::size_t{32} * 1024 * 1024;

/// `status` as one JSON object and a newline, as docs/reference.md describes it. Bytes that are not
/// UTF-8 are replaced.
std::string to_json(const JobStatus& status);

/// Reads what to_json() wrote, also in a later version: unknown fields are skipped. Fails with
/// kProtocol, naming the field that is missing, repeated, of another type or out of its range.
Result<JobStatus> parse_status(std::string_view json);

}  // namespace ddprun
