#pragma once

// Listening sockets, made and served by plain system calls so that accept comes in batches.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// The sockets that `endpoint` asks for, non-blocking and all on one port: for an empty host one
/// that takes IPv6 and IPv4 alike (IPv4 alone where the kernel has no IPv6), else one for each
/// address the host has, and no other. Port 0 picks a free one.
///
/// Fails with kInvalidArgument if the host has no address here, and with kIo if the port is taken
/// or not ours to use; both name the endpoint and what to do.
Result<std::vector<Descriptor>> listen_on(const Endpoint& endpoint);

/// The port that `socket` is bound to.
std::uint16_t port_of(int socket);

/// The other end, numerically (no name service is asked): "10.0.0.1:4711".
std::string peer_of(int socket);

/// NODELAY, keepalive (60 s, then 6 probes every 10 s), and the same 120 s for unacknowledged data:
/// a peer whose machine is gone is noticed though it never says so.
void tune_connection(int socket);

/// Accepts connections, one call at a time, also when this process is out of descriptors.
class Acceptor {
 public:
  enum class Outcome : std::uint8_t {
    kAccepted,
    kNothing,     // nobody is waiting
    kTurnedAway,  // accepted and closed at once: no descriptor is left
  };

  Acceptor();

  /// Takes one waiting connection off `listening`, non-blocking and close-on-exec, into `accepted`.
  Outcome accept(int listening, Descriptor& accepted);

 private:
  void reserve();

  Descriptor spare_;  // given up for a moment to accept, and so dismiss, one more connection
};

/// Raises this process's soft limit of open files to the hard one; returns what holds then.
/// Processes started later inherit it.
std::uint64_t raise_descriptor_limit();

}  // namespace ddprun
