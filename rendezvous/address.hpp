#pragma once

// TCP addresses, and the names that resolve to them.

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

using Address = boost::asio::ip::tcp::endpoint;

/// The host of `address` as a number: "10.0.0.1", also if an IPv4 peer connected to an IPv6 socket;
/// "fe80::1%eth0".
std::string host_of(const Address& address);

/// The addresses of `endpoint`, in the order in which to try them. Blocks: the name service may
/// take half a minute. Fails with kInvalidArgument if the host is unknown.
Result<std::vector<Address>> look_up(const Endpoint& endpoint);

/// The address of `endpoint` if its host is a number; asks no name service.
std::optional<Address> numeric_address(const Endpoint& endpoint);

/// The remote end of a connection; none if it is closed.
std::optional<Address> peer_address(int socket);

/// The local end of a connection.
std::optional<Address> own_end(int socket);

}  // namespace ddprun
