#pragma once

// Addresses of sockets, and the names that lead to them.

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace ddprun {

/// An IPv4 or IPv6 address with a port, as the kernel takes it.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);

  /// The host as a number, without asking a name service: "10.0.0.1", also where an IPv4 peer came
  /// to an IPv6 socket; "fe80::1%eth0". Empty if it is neither.
  std::string host() const;
};

/// The addresses of `endpoint`, in the order in which they are to be tried. Asks the name service,
/// which may take half a minute. Fails with kInvalidArgument if the host is unknown.
Result<std::vector<Address>> look_up(const Endpoint& endpoint);

/// The address of `endpoint` if its host is a number; asks nobody.
std::optional<Address> numeric_address(const Endpoint& endpoint);

/// The other end of a connection; none if that has gone.
std::optional<Address> peer_address(int socket);

/// Our end of a connection.
std::optional<Address> own_end(int socket);

}  // namespace ddprun
