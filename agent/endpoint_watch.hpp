#pragma once

#include "base/deadline.hpp"
#include "base/endpoint.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/name_service.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <vector>

namespace ddprun {

/// Whether a name service decides where `endpoint` is.
bool has_name(const Endpoint& endpoint);

/// Reports when the job's endpoint has become an address of this machine. Checks when the endpoint
/// was resolved for a call, when its name was resolved here 300 ms after the last check, and when
/// this machine gets an address (DHCP, the end of IPv6's "tentative" state), by netlink.
class EndpointWatch {
 public:
  /// Gets the endpoint's addresses, one of which is this machine's.
  using OnOwn = std::function<void(const std::vector<Address>&)>;

  /// `on_own` is called for each check that succeeds, until stop().
  EndpointWatch(asio::io_context& context, Endpoint endpoint, OnOwn on_own);
  EndpointWatch(const EndpointWatch&) = delete;
  EndpointWatch& operator=(const EndpointWatch&) = delete;
  ~EndpointWatch() = default;

  /// Watches in `tasks` until they are cancelled, or it is stopped. REQUIRES: called once.
  void serve_in(TaskScope& tasks);

  /// Checks `addresses`, to which a call has just resolved the endpoint.
  void resolved(std::vector<Address> addresses);

  void stop();

 private:
  using Stream = asio::posix::stream_descriptor;

  asio::awaitable<void> watch_name();
  asio::awaitable<void> watch_addresses();
  void check();

  Endpoint endpoint_;
  OnOwn on_own_;
  Stream netlink_;  // closed if the kernel or a sandbox does not permit one
  NameService names_;
  Timer next_look_up_;
  std::vector<Address> addresses_;  // the newest that are known
  bool is_stopped_ = false;
};

}  // namespace ddprun
