#pragma once

// One TCP connection that carries frames (core/frame.hpp): agents' channels and lifelines run on
// it. Waits through Asio; reads and writes as much as the socket takes at once.

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "rendezvous/core/frame.hpp"
#include "rendezvous/tcp.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

class FramedConnection {
 public:
  using Wait = tcp::socket::wait_type;

  /// An accepted connection: an opening comes before the first frame.
  FramedConnection(tcp::socket socket, std::size_t frame_bytes_max);
  /// A connection that we open, which begins with the opening of `protocol`.
  FramedConnection(tcp::socket socket, Protocol protocol);

  /// Waits until there is something to read or room to write; may return early, as after wake() or
  /// close(). Fails with kTimedOut at `deadline`, or kCancelled.
  asio::awaitable<Result<void>> wait(Wait what, std::optional<TimePoint> deadline = {});

  /// Waits like wait() without a deadline, and yields an error_code. For loops that serve many
  /// connections: co_await of it allocates nothing.
  auto async_wait(Wait what) { return socket_.async_wait(what, asio::as_tuple(asio::deferred)); }

  /// What one read yields.
  struct Input {
    std::string_view bytes;           // empty: there was nothing, or the connection has ended
    boost::system::error_code error;  // eof: the peer closed it; else why it is lost
  };
  Input receive(std::span<char> buffer);

  /// Takes bytes off the front of `bytes`, and yields the next frame, as FrameReader::next() does.
  /// Fails with kProtocol if the opening is that of another version, kLimit if a frame is too
  /// large.
  Result<std::optional<std::string_view>> next(std::string_view& bytes);

  /// Queues a frame. Fails with kLimit if `body` is too large.
  Result<void> add(std::string_view body);

  /// Sends what is queued, as far as the peer takes it now. Fails with kPeerLost.
  Result<void> flush();

  /// Bytes that are queued.
  std::size_t unsent() const { return outbox_.size() - sent_; }

  /// Sends one byte outside of any frame; false if it cannot be sent at once.
  bool send_byte(char byte);

  /// Sends no more, so that the peer sees an orderly end.
  void shut();
  /// Ends each wait as well.
  void close() { close_socket(socket_); }
  /// Ends each wait.
  void wake();

  bool is_open() const { return socket_.is_open(); }
  tcp::socket& socket() { return socket_; }
  int native_handle() { return socket_.native_handle(); }

 private:
  tcp::socket socket_;
  std::optional<std::string> opening_;  // until it is complete
  FrameReader frames_;
  std::string outbox_;
  std::size_t sent_ = 0;  // of the outbox
};

}  // namespace ddprun
