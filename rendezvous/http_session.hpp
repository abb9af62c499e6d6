#pragma once

#include "base/deadline.hpp"
#include "base/descriptor.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// A page at this moment.
struct HttpPage {
  std::string content_type;
  std::string body;
  int status = 200;
  std::optional<std::string> location = std::nullopt;  // of a redirect
};

/// The page at `path`, such as "/status"; none if there is none.
using HttpPages = std::function<std::optional<HttpPage>(std::string_view path)>;

/// Answers one HTTP request and closes: GET or HEAD of /healthz with 200, of a path of `pages` with
/// that page and its status, of another path with 404; another method with 405. What a page throws
/// is logged, and ends this request alone. `received` has been read from `socket` before. A header
/// that is malformed, longer than 8 KiB or incomplete at `deadline` gets no answer.
asio::awaitable<void> serve_http(
    Descriptor socket, std::string received, TimePoint deadline, HttpPages pages);

}  // namespace ddprun
