#pragma once

#include "base/deadline.hpp"
#include "base/descriptor.hpp"

#include <string>

namespace ddprun {

/// Answers one HTTP request and closes: GET or HEAD /healthz with 200, other paths with 404, other
/// methods with 405. `received` has been read from `socket` already; what has not come by
/// `deadline`, or is longer than 8 KiB, is not answered.
asio::awaitable<void> serve_http(Descriptor socket, std::string received, TimePoint deadline);

}  // namespace ddprun
