#include "rendezvous/listener.hpp"

#include "rendezvous/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

using boost::asio::ip::tcp;

constexpr int kKeepIdleS = 60;
constexpr int kKeepIntervalS = 10;
constexpr int kKeepProbes = 6;
constexpr int kUserTimeoutMs = 120'000;

// With port 0 the first address picks a port, which may be taken on another address of the host.
constexpr int kPortTriesMax = 16;

// Each may lose a race of less than a microsecond; measured: one in a thousand does.
constexpr int kListenTriesMax = 16;

void set_option(int socket, int level, int name, int value) {
  // Tuning only: the socket works without it.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof(value)));
}

/// Bound, not yet listening. On failure errno is set.
Descriptor try_bind(const Address& address, bool both_families) {
  Descriptor socket(::socket(
      address.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return {};
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.address().is_v6()) {
    set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (::bind(socket.get(), address.data(), static_cast<socklen_t>(address.size())) != 0) return {};
  return socket;
}

/// Listens on one address. On failure errno is set.
///
/// SO_REUSEADDR lets two sockets be bound to one port as long as neither listens. If two of them
/// call listen() at the same moment Linux may refuse both, since each is marked as listening before
/// the conflict is checked (inet_csk_listen_start): then every node would look for a leader, and
/// find none. A socket that was bound and refused binds again, and that is refused if another
/// listens.
Descriptor try_listen(Address address, std::uint16_t port, bool both_families) {
  address.port(port);
  for (int tries = 1;; ++tries) {
    Descriptor socket = try_bind(address, both_families);
    if (!socket || ::listen(socket.get(), SOMAXCONN) == 0) return socket;
    if (errno != EADDRINUSE || tries == kListenTriesMax) return {};
  }
}

Error listen_error(int errno_value, const Endpoint& endpoint) {
  if (errno_value == EMFILE || errno_value == ENFILE) {
    return make_errno_error(errno_value, fmt::format("cannot listen on port {}", endpoint.port));
  }
  const char* remedy = "check the host and the port";
  if (errno_value == EADDRINUSE) remedy = "choose another port";
  if (errno_value == EACCES) remedy = "choose a port from 1024 on";
  if (errno_value == EADDRNOTAVAIL) remedy = "give an address of this machine";
  const std::string where =
      endpoint.host.empty() ? fmt::format("port {}", endpoint.port) : endpoint.to_string();
  // Trying again would not help.
  const bool is_value = errno_value == EADDRNOTAVAIL || errno_value == EACCES;
  return make_error(
      is_value ? Errc::kInvalidArgument : Errc::kIo,
      fmt::format("cannot listen on {}: {}; {}", where, std::strerror(errno_value), remedy));
}

Result<std::vector<Descriptor>> listen_on_any(const Endpoint& endpoint) {
  std::vector<Descriptor> sockets;
  Descriptor socket = try_listen(Address(tcp::v6(), 0), endpoint.port, true);
  if (!socket && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    socket = try_listen(Address(tcp::v4(), 0), endpoint.port, false);
  }
  if (!socket) return listen_error(errno, endpoint);
  sockets.push_back(std::move(socket));
  return sockets;
}

/// All on one port; empty, with errno set, if one of them fails.
std::vector<Descriptor> try_listen_all(const std::vector<Address>& addresses, std::uint16_t port) {
  std::vector<Descriptor> sockets;
  for (const Address& address : addresses) {
    Descriptor socket = try_listen(address, port, false);
    if (!socket) {
      // A host name may have an address of a family that this kernel lacks.
      if (errno == EAFNOSUPPORT && addresses.size() > 1) continue;
      return {};
    }
    if (port == 0) port = port_of(socket.get());
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

}  // namespace

Result<std::vector<Descriptor>> listen_on(const Endpoint& endpoint) {
  if (endpoint.host.empty()) return listen_on_any(endpoint);
  const auto addresses = look_up(endpoint);
  if (!addresses) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("{}; give an address of this machine", addresses.error().detail));
  }
  for (int tries = 1;; ++tries) {
    std::vector<Descriptor> sockets = try_listen_all(*addresses, endpoint.port);
    if (!sockets.empty()) return sockets;
    const bool unlucky = errno == EADDRINUSE && endpoint.port == 0 && tries < kPortTriesMax;
    if (!unlucky) return listen_error(errno, endpoint);
  }
}

Result<Descriptor> reserve_port(std::uint16_t port) {
  Descriptor socket = try_bind(Address(tcp::v6(), port), true);
  if (!socket && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    socket = try_bind(Address(tcp::v4(), port), false);
  }
  if (!socket) return listen_error(errno, {.host = "", .port = port});
  return socket;
}

std::uint16_t port_of(int socket) {
  const auto address = own_end(socket);
  return address ? address->port() : 0;
}

std::string peer_of(int socket) {
  const auto address = peer_address(socket);
  if (!address) return "a peer that has gone";
  return Endpoint{.host = host_of(*address), .port = address->port()}.to_string();
}

void tune_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Acceptor::Acceptor() {
  reserve();
}

Acceptor::Outcome Acceptor::accept(int listening, Descriptor& accepted, const MakeWay& make_way) {
  for (;;) {
    accepted = Descriptor(::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted) return Outcome::kAccepted;
    // An error of that connection alone: the next one may succeed.
    const bool gone = errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
    if (gone) continue;
    if (errno == EAGAIN) return Outcome::kNothing;
    if (errno != EMFILE && errno != ENFILE) return Outcome::kFailed;
    if (make_way && make_way()) continue;
    // Left in the queue it would keep the socket readable, and the loop busy. Closed at once, its
    // client tries again, and succeeds once a descriptor has been released.
    if (!spare_) reserve();
    if (!spare_) return Outcome::kFailed;
    spare_.reset();
    Descriptor dismissed(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    const bool was_one = static_cast<bool>(dismissed);
    dismissed.reset();  // before the spare is taken again, which needs its number
    reserve();
    return was_one ? Outcome::kTurnedAway : Outcome::kNothing;
  }
}

void Acceptor::reserve() {
  spare_ = open_file("/dev/null", O_RDONLY | O_CLOEXEC);
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  return raised.rlim_cur;
}

std::size_t strangers_within_files(std::size_t wanted) {
  constexpr rlim_t kShare = 8;  // of the store's port, of agents and of lifelines: three shares
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / kShare, 1, wanted));
}

}  // namespace ddprun
