#pragma once

#include "base/deadline.hpp"
#include "base/descriptor.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// One page as it is now.
struct HttpPage {
  std::string content_type;
  std::string body;
  std::string status = "200 OK";
  std::optional<std::string> location = std::nullopt;  // of a redirect
};

/// What stands at `path`, such as "/status"; none if nothing does.
using HttpPages = std::function<std::optional<HttpPage>(std::string_view path)>;

/// Answers one HTTP request and closes: GET or HEAD /healthz with 200, a path of `pages` with that
/// page and its status, other paths with 404, other methods with 405. `received` has been read from
/// `socket` already; what has not come by `deadline`, or is longer than 8 KiB, is not answered.
asio::awaitable<void> serve_http(
    Descriptor socket, std::string received, TimePoint deadline, HttpPages pages);

}  // namespace ddprun
