#include "rendezvous/address.hpp"

#include <fmt/format.h>

#include <cstring>

#include <netdb.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

/// Fails with the code of getaddrinfo. Not by Asio's resolver: it wants an io_context, which costs
/// more than a number, and its errors say less.
int resolve(const Endpoint& endpoint, int flags, std::vector<Address>& addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int failed = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list);
  for (const addrinfo* each = failed == 0 ? list : nullptr; each != nullptr; each = each->ai_next) {
    Address& address = addresses.emplace_back();
    address.resize(each->ai_addrlen);
    std::memcpy(address.data(), each->ai_addr, each->ai_addrlen);
  }
  if (failed == 0) ::freeaddrinfo(list);
  return failed;
}

using NameOf = int (*)(int socket, sockaddr* address, socklen_t* size);

std::optional<Address> end_of(int socket, NameOf name_of) {
  Address address;
  auto size = static_cast<socklen_t>(address.capacity());
  if (name_of(socket, address.data(), &size) != 0) return std::nullopt;
  address.resize(size);
  return address;
}

}  // namespace

std::string host_of(const Address& address) {
  namespace ip = boost::asio::ip;
  const ip::address host = address.address();
  const bool is_mapped = host.is_v6() && host.to_v6().is_v4_mapped();
  return is_mapped ? ip::make_address_v4(ip::v4_mapped, host.to_v6()).to_string()
                   : host.to_string();
}

Result<std::vector<Address>> look_up(const Endpoint& endpoint) {
  std::vector<Address> addresses;
  const int failed = resolve(endpoint, 0, addresses);
  if (failed == 0) return addresses;
  return make_error(
      Errc::kInvalidArgument,
      fmt::format("host '{}' cannot be resolved: {}", endpoint.host, ::gai_strerror(failed)));
}

std::optional<Address> numeric_address(const Endpoint& endpoint) {
  std::vector<Address> addresses;
  if (resolve(endpoint, AI_NUMERICHOST, addresses) != 0) return std::nullopt;
  return addresses.front();
}

std::optional<Address> peer_address(int socket) {
  return end_of(socket, ::getpeername);
}

std::optional<Address> own_end(int socket) {
  return end_of(socket, ::getsockname);
}

}  // namespace ddprun
