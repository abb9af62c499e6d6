#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

struct HttpResponse {
  int status = 0;      // 200
  std::string server;  // the headers of these names; empty: there is none
  std::string location;
  std::string challenge;  // WWW-Authenticate
  std::string body;
};

/// The response of the server at `endpoint` to GET `path`, with that header Authorization unless it
/// is empty. Fails with kInvalidArgument (unknown host), kPeerLost (refused, or cut off before the
/// end), kTimedOut, kLimit (a body of more than `body_bytes_max`) or kProtocol (no HTTP/1.x, no
/// Content-Length); the error names the endpoint.
Result<HttpResponse> http_get(
    const Endpoint& endpoint,
    std::string_view path,
    std::size_t body_bytes_max,
    TimePoint deadline,
    std::string_view authorization = {});

}  // namespace ddprun
