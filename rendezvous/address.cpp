#include "rendezvous/address.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include <netdb.h>
#include <netinet/in.h>

namespace ddprun {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// getaddrinfo; null, with the reason in `failed`, if there is none.
AddressList ask(const Endpoint& endpoint, int flags, int& failed) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(endpoint.port);
  failed = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list);
  return {failed == 0 ? list : nullptr, &::freeaddrinfo};
}

Address address_of(const addrinfo& info) {
  Address address;
  std::memcpy(&address.storage, info.ai_addr, info.ai_addrlen);
  address.size = info.ai_addrlen;
  return address;
}

}  // namespace

std::uint16_t Address::port() const {
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(get())->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(get())->sin_port);
}

void Address::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(get())->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(get())->sin_port = htons(port);
  }
}

std::string Address::host() const {
  constexpr std::string_view kMapped = "::ffff:";
  std::array<char, NI_MAXHOST> text{};
  const int failed =
      ::getnameinfo(get(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) return {};
  const std::string_view host = text.data();
  const bool is_mapped = host.starts_with(kMapped) && host.find('.') != std::string_view::npos;
  return std::string(is_mapped ? host.substr(kMapped.size()) : host);
}

Result<std::vector<Address>> look_up(const Endpoint& endpoint) {
  int failed = 0;
  const AddressList list = ask(endpoint, 0, failed);
  if (list == nullptr) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format("host '{}' cannot be resolved: {}", endpoint.host, ::gai_strerror(failed)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    addresses.push_back(address_of(*each));
  }
  return addresses;
}

std::optional<Address> numeric_address(const Endpoint& endpoint) {
  int failed = 0;
  const AddressList list = ask(endpoint, AI_NUMERICHOST, failed);
  if (list == nullptr) return std::nullopt;
  return address_of(*list);
}

std::optional<Address> peer_address(int socket) {
  Address address;
  address.size = sizeof(address.storage);
  if (::getpeername(socket, address.get(), &address.size) != 0) return std::nullopt;
  return address;
}

std::optional<Address> own_end(int socket) {
  Address address;
  address.size = sizeof(address.storage);
  if (::getsockname(socket, address.get(), &address.size) != 0) return std::nullopt;
  return address;
}

}  // namespace ddprun
