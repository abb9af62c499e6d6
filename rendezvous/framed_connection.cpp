#include "rendezvous/framed_connection.hpp"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

using Waited = std::tuple<boost::system::error_code>;

asio::awaitable<Waited> wait_for(tcp::socket& socket, tcp::socket::wait_type what) {
  co_return co_await socket.async_wait(what, kTuple);
}

bool is_nothing(const boost::system::error_code& error) {
  return error == asio::error::would_block || error == asio::error::interrupted;
}

}  // namespace

FramedConnection::FramedConnection(tcp::socket socket, std::size_t frame_bytes_max)
    : socket_(std::move(socket)), opening_(""), frames_(frame_bytes_max) {}

FramedConnection::FramedConnection(tcp::socket socket, Protocol protocol)
    : socket_(std::move(socket)), outbox_(opening_of(protocol)) {}

asio::awaitable<Result<void>> FramedConnection::wait(Wait what, std::optional<TimePoint> deadline) {
  if (deadline) {
    const auto ready = co_await before(*deadline, wait_for(socket_, what));
    if (!ready) co_return ready.error();
  } else {
    static_cast<void>(co_await async_wait(what));
  }
  co_return co_await unless_cancelled();
}

FramedConnection::Input FramedConnection::receive(std::span<char> buffer) {
  Input input;
  const std::size_t got =
      socket_.read_some(asio::buffer(buffer.data(), buffer.size()), input.error);
  if (is_nothing(input.error)) input.error.clear();
  input.bytes = {buffer.data(), got};
  return input;
}

Result<std::optional<std::string_view>> FramedConnection::next(std::string_view& bytes) {
  if (opening_) {
    const std::size_t missing = opening_of(Protocol::kAgent).size() - opening_->size();
    opening_->append(bytes.substr(0, missing));
    bytes.remove_prefix(std::min(missing, bytes.size()));
    const auto whole = check_opening(*opening_);
    if (!whole) return whole.error();
    if (!*whole) return std::optional<std::string_view>();
    opening_.reset();
  }
  return frames_.next(bytes);
}

Result<void> FramedConnection::add(std::string_view body) {
  if (sent_ > kFrameBytesMax) outbox_.erase(0, std::exchange(sent_, 0));
  return append_frame(outbox_, body);
}

Result<void> FramedConnection::flush() {
  while (unsent() > 0) {
    boost::system::error_code error;
    sent_ += socket_.write_some(asio::buffer(outbox_.data() + sent_, unsent()), error);
    if (is_nothing(error)) return {};
    if (error) return make_error(Errc::kPeerLost, error.message());
  }
  outbox_.clear();
  sent_ = 0;
  return {};
}

bool FramedConnection::send_byte(char byte) {
  boost::system::error_code error;
  return socket_.write_some(asio::buffer(&byte, 1), error) == 1;
}

void FramedConnection::shut() {
  boost::system::error_code error;
  static_cast<void>(
      socket_.shutdown(tcp::socket::shutdown_send, error));  // of one that is gone it need not be
}

void FramedConnection::wake() {
  boost::system::error_code error;
  static_cast<void>(socket_.cancel(error));
}

}  // namespace ddprun
