#include "agent/meeting_point.hpp"

#include "base/descriptor.hpp"

#include <cerrno>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

/// A port that was free a moment ago, for a store that rank 0 hosts. Somebody else may take it
/// first: that is why the shared store is the default.
Result<std::uint16_t> free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    return make_errno_error(errno, "no free port for rank 0's store");
  }
  return ntohs(address.sin_port);
}

}  // namespace

Result<MeetingPoint> open_meeting_point(boost::asio::io_context& context, const LaunchPlan& plan) {
  if (plan.shared_store) {
    StoreServerOptions options;
    options.endpoint.port = plan.master_port.value_or(0);
    auto store = StoreServer::listen(context, options);
    if (!store) return with_context("the store for the workers", store.error());
    const std::uint16_t port = (*store)->port();
    return MeetingPoint{.port = port, .store = *std::move(store)};
  }
  if (plan.master_port) return MeetingPoint{.port = *plan.master_port, .store = nullptr};
  const auto port = free_port();
  if (!port) return port.error();
  return MeetingPoint{.port = *port, .store = nullptr};
}

}  // namespace ddprun
