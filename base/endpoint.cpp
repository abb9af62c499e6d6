#include "base/endpoint.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace ddprun {
namespace {

/// Whether `host` is written as an IPv6 address; a zone may follow.
bool is_ipv6(std::string_view host) {
  const std::string address(host.substr(0, host.find('%')));
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool is_control(char byte) {
  constexpr char kDelete = 0x7f;
  return (byte >= 0 && byte < ' ') || byte == kDelete;
}

/// Fails if `host` is neither a name nor an address, as far as its letters tell, or would be read
/// as another one after it was written.
Result<void> check_host(std::string_view host) {
  if (host.empty()) return invalid_argument("the host is empty");
  const auto control = std::ranges::find_if(host, is_control);
  if (control != host.end()) {
    return invalid_argument(
        "byte {} of the host is the control character {:#04x}; leave it out",
        control - host.begin() + 1,
        static_cast<unsigned char>(*control));
  }
  if (host.find_first_of(" /@,") != std::string_view::npos) {
    return invalid_argument("expected HOST[:PORT]");
  }
  if (host.find_first_of("[]") != std::string_view::npos) {
    return invalid_argument(
        "the host '{}' has a bracket in it; write HOST[:PORT], or [ADDRESS]:PORT if the address is "
        "IPv6",
        host);
  }
  const bool has_colons = host.find(':') != std::string_view::npos;
  if (has_colons && !is_ipv6(host)) {
    return invalid_argument("not an IPv6 address; with a port, write [ADDRESS]:PORT");
  }
  if (has_colons && host.ends_with('%')) {
    return invalid_argument(
        "the address '{}' has no interface after its '%'; add one, as in '{}eth0'", host, host);
  }
  return {};
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text, std::uint16_t default_port) {
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return invalid_argument("the bracket is not closed");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) return invalid_argument("expected [HOST]:PORT");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (const std::size_t colon = text.find(':');
             colon != std::string_view::npos && colon == text.rfind(':')) {
    host = text.substr(0, colon);  // with more colons it is a bare IPv6 address
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (const auto checked = check_host(host); !checked) return checked.error();
  if (!has_port) return Endpoint{.host = std::string(host), .port = default_port};
  const auto number = parse_int<std::uint16_t>(port);
  if (!number) return invalid_argument("the port must be a number from 0 to 65535");
  return Endpoint{.host = std::string(host), .port = *number};
}

std::string Endpoint::to_string() const {
  const bool brackets = host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool is_any(std::string_view host) {
  // Zero can be written in many ways; these are the usual ones, and those of getnameinfo.
  return host == "0.0.0.0" || host == "0" || host == "::";
}

}  // namespace ddprun
