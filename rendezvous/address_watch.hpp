#pragma once

// Tells when this machine gets an address (DHCP, the end of IPv6's "tentative" state), by a netlink
// socket: nobody has to ask for that again and again.

#include "base/deadline.hpp"
#include "base/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>

namespace ddprun {

class AddressWatch {
 public:
  /// `on_change` is called from serve(): an address may have come, of any interface. Fails with kIo
  /// where the kernel or a sandbox gives no such socket.
  static Result<std::unique_ptr<AddressWatch>> open(
      asio::io_context& context, std::function<void()> on_change);

  ~AddressWatch() = default;
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  /// Watches until it is cancelled, or stopped. REQUIRES: called once.
  asio::awaitable<void> serve();

  /// Nobody is told any more.
  void stop();

 private:
  using Stream = asio::posix::stream_descriptor;

  AddressWatch(Stream socket, std::function<void()> on_change);

  Stream socket_;
  std::function<void()> on_change_;
  bool is_stopped_ = false;
};

}  // namespace ddprun
