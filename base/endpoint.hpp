#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// A host and a TCP port: "host:29500", "10.0.0.1:0", "[::1]:29500".
///
/// The host is a name or a numeric address, without brackets. Port 0 means any free port, for a
/// listening socket.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  /// Reads "HOST[:PORT]"; an IPv6 address needs brackets if a port follows. What it yields is the
  /// same after to_string() and parse(). Fails with kInvalidArgument, saying what is wrong.
  static Result<Endpoint> parse(std::string_view text, std::uint16_t default_port);

  /// "host:port", with brackets if needed.
  std::string to_string() const;

  bool operator==(const Endpoint&) const = default;
};

/// Whether `host` is a numeric address that stands for all addresses of a machine. It can be
/// listened on, but not given to other nodes.
bool is_any(std::string_view host);

}  // namespace ddprun
