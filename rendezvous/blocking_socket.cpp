#include "rendezvous/blocking_socket.hpp"

#include "base/check.hpp"
#include "rendezvous/tcp.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

struct BlockingSocket::Connection {
  asio::io_context context{1};
  tcp::socket socket{context};

  /// Runs the operation that `begin` starts with a handler, and yields how many bytes it moved.
  template <class Begin>
  Result<std::size_t> run(TimePoint deadline, Begin begin) {
    boost::system::error_code error = asio::error::would_block;
    std::size_t bytes = 0;
    begin([&](boost::system::error_code ended, std::size_t moved) {
      error = ended;
      bytes = moved;
    });
    context.restart();
    context.run_until(deadline);
    if (error == asio::error::would_block) {
      socket.cancel();
      context.run();
    }
    if (!error) return bytes;
    if (error == asio::error::operation_aborted) {
      return make_error(Errc::kTimedOut, "no reply by the deadline");
    }
    const bool is_end = error == asio::error::eof;
    return make_error(
        Errc::kPeerLost, is_end ? "the server closed the connection" : error.message());
  }
};

namespace {

asio::awaitable<void> connect_into(
    std::optional<Result<tcp::socket>>& socket, std::vector<Address> addresses, Timer& limit) {
  socket = co_await connect_any(std::move(addresses), limit);
}

Result<void> without_size(const Result<std::size_t>& moved) {
  return moved ? Result<void>() : moved.error();
}

}  // namespace

Result<BlockingSocket> BlockingSocket::connect(const Endpoint& endpoint, TimePoint deadline) {
  auto addresses = look_up(endpoint);
  if (!addresses) return addresses.error();
  auto connection = std::make_unique<Connection>();
  Timer limit(connection->context, deadline);
  std::optional<Result<tcp::socket>> socket;
  asio::co_spawn(
      connection->context,
      connect_into(socket, *std::move(addresses), limit),
      [](const std::exception_ptr& thrown) {
        if (thrown) std::rethrow_exception(thrown);
      });
  connection->context.run();
  DDPRUN_CHECK(socket.has_value());
  Result<tcp::socket>& connected = *socket;
  if (!connected) {
    return with_context(
        fmt::format("cannot connect to {}", endpoint.to_string()), connected.error());
  }
  connection->socket = *std::move(connected);
  return BlockingSocket(std::move(connection));
}

BlockingSocket::BlockingSocket(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
BlockingSocket::BlockingSocket(Descriptor connected) : connection_(std::make_unique<Connection>()) {
  connection_->socket.assign(tcp::v6(), connected.get());
  static_cast<void>(connected.release());  // not before, since what Asio refuses stays open
}
BlockingSocket::~BlockingSocket() = default;
BlockingSocket::BlockingSocket(BlockingSocket&& other) noexcept = default;
BlockingSocket& BlockingSocket::operator=(BlockingSocket&& other) noexcept = default;

Result<void> BlockingSocket::send_all(std::string_view bytes, TimePoint deadline) {
  return without_size(connection_->run(deadline, [&](auto handler) {
    asio::async_write(connection_->socket, asio::buffer(bytes), handler);
  }));
}

Result<void> BlockingSocket::receive_all(std::span<char> into, TimePoint deadline) {
  return without_size(connection_->run(deadline, [&](auto handler) {
    asio::async_read(connection_->socket, asio::buffer(into.data(), into.size()), handler);
  }));
}

Result<std::size_t> BlockingSocket::receive_some(std::span<char> into, TimePoint deadline) {
  return connection_->run(deadline, [&](auto handler) {
    connection_->socket.async_read_some(asio::buffer(into.data(), into.size()), handler);
  });
}

int BlockingSocket::native_handle() const {
  return connection_->socket.native_handle();
}

Descriptor BlockingSocket::release() {
  return Descriptor(connection_->socket.release());
}

}  // namespace ddprun
