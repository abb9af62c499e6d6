#pragma once

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace ddprun {

/// A TCP connection for a thread that has no io_context: each call blocks, but not past its
/// deadline. After a failure the connection is unusable.
class BlockingSocket {
 public:
  /// Connects to the first address of `endpoint` that answers. Fails with kInvalidArgument if the
  /// host is unknown, kTimedOut, or kPeerLost (refused, reset).
  static Result<BlockingSocket> connect(const Endpoint& endpoint, TimePoint deadline);

  /// `connected` elsewhere, a socket of TCP.
  explicit BlockingSocket(Descriptor connected);
  ~BlockingSocket();
  BlockingSocket(BlockingSocket&& other) noexcept;
  BlockingSocket& operator=(BlockingSocket&& other) noexcept;
  BlockingSocket(const BlockingSocket&) = delete;
  BlockingSocket& operator=(const BlockingSocket&) = delete;

  /// Sends all of `bytes`. Fails with kTimedOut or kPeerLost.
  Result<void> send_all(std::string_view bytes, TimePoint deadline);

  /// Receives until `into` is full. Fails with kTimedOut or kPeerLost.
  Result<void> receive_all(std::span<char> into, TimePoint deadline);

  /// Receives at least one byte, at most as many as fit. Fails with kTimedOut or kPeerLost.
  Result<std::size_t> receive_some(std::span<char> into, TimePoint deadline);

  int native_handle() const;

  /// The connection alone, non-blocking.
  Descriptor release();

 private:
  struct Connection;  // keeps Asio out of this header, which the trainer includes

  explicit BlockingSocket(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace ddprun
