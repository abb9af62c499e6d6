#pragma once

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// A page at this moment.
struct HttpPage {
  std::string content_type;
  // Shared by all who are sent it: that of a large job has a megabyte, and anybody may ask.
  std::shared_ptr<const std::string> body;
  int status = 200;
  std::optional<std::string> location = std::nullopt;   // of a redirect
  std::optional<std::string> challenge = std::nullopt;  // WWW-Authenticate
};

/// What is asked for.
struct HttpRequest {
  std::string_view path;           // such as "/status"
  std::string_view authorization;  // the header of that name; empty: there is none
};

/// The body of a page.
std::shared_ptr<const std::string> page_body(std::string text);

/// The page that `request` asks for; none if there is none.
using HttpPages = std::function<std::optional<HttpPage>(const HttpRequest& request)>;

/// The HTTP clients of one port. Each sends one request and is closed: GET or HEAD of /healthz is
/// answered with 200, of a path of `pages` with that page and its status, of another path with 404;
/// another method with 405. What a page throws is logged, and ends this request alone.
///
/// All members run on `executor`, which must be a single thread.
class HttpSessions {
 public:
  /// Serves at most `sessions_max` clients at one time, at least one. `on_idle` is called when the
  /// last of so many that they took much memory is gone.
  HttpSessions(
      asio::any_io_executor executor,
      HttpPages pages,
      std::size_t sessions_max,
      std::function<void()> on_idle);

  /// Answers the request on `socket`, of which `received` has been read before. A header that is
  /// malformed, longer than 8 KiB or incomplete at `deadline` gets no answer, and what the client
  /// has not taken by then is not sent. If there are too many clients, one makes way. Throws
  /// std::bad_alloc, and has closed the socket then.
  void adopt(Descriptor socket, std::string received, TimePoint deadline);

  /// Closes the client that has gone for longest without a whole request; if there is none, the
  /// one that has gone for longest without taking its answer. False if there is neither.
  bool make_way();

  /// Asks all sessions to stop. Starts none after that.
  void cancel() { tasks_.cancel(); }

  /// Returns once no session is left. REQUIRES: awaited before it is destroyed, if it has adopted.
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  struct Session {
    asio::posix::stream_descriptor stream;
    bool has_asked = false;  // its request is whole
  };

  asio::awaitable<void> serve(Descriptor socket, std::string received, TimePoint deadline);
  asio::awaitable<void> answer_request(Session& session, std::string received, TimePoint deadline);
  std::size_t open_sessions() const;

  asio::any_io_executor executor_;
  HttpPages pages_;
  std::size_t sessions_max_;
  std::function<void()> on_idle_;
  std::size_t crowd_ = 0;        // the most clients at one time, since it was idle
  std::list<Session> sessions_;  // the oldest first; one that made way is closed, and ends soon
  TaskScope tasks_;
};

}  // namespace ddprun
