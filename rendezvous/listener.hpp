#pragma once

// Listening sockets. Made and served by system calls: Asio's acceptor does not set close-on-exec on
// what it accepts, so that workers would inherit it, and it takes one connection at a time.

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

/// Listening sockets for `endpoint`, non-blocking and all on one port. For an empty host one that
/// takes IPv6 and IPv4 alike (IPv4 alone if the kernel has no IPv6); else one for each address of
/// the host. Port 0 picks a free one.
///
/// Fails with kInvalidArgument if the host has no address here, and kIo if the port is taken or not
/// permitted; both name the endpoint and what to do.
Result<std::vector<Descriptor>> listen_on(const Endpoint& endpoint);

/// A socket that has `port` on all addresses but does not listen: as long as it is open, nobody
/// gets the port by chance, and this process can listen on it at any address. Port 0 picks a free
/// one. Fails as listen_on() does, if any program listens on that port.
Result<Descriptor> reserve_port(std::uint16_t port);

/// The port that `socket` is bound to.
std::uint16_t port_of(int socket);

/// The remote end as a number: "10.0.0.1:4711".
std::string peer_of(int socket);

/// Sets NODELAY, keepalive (60 s, then 6 probes every 10 s), and the same 120 s for unacknowledged
/// data, to detect a peer whose machine is gone.
void tune_connection(int socket);

/// Accepts connections, even when this process is out of descriptors.
class Acceptor {
 public:
  enum class Outcome : std::uint8_t {
    kAccepted,
    kNothing,     // no connection is waiting
    kTurnedAway,  // accepted and closed at once: no descriptor is left
    kFailed,      // no memory or descriptor is left: it still waits, so pause
  };

  Acceptor();

  /// Closes a connection that may go; false if there is none.
  using MakeWay = std::function<bool()>;

  /// Takes one waiting connection off `listening`, non-blocking and close-on-exec, into `accepted`.
  /// If no descriptor is left, `make_way` frees one.
  Outcome accept(int listening, Descriptor& accepted, const MakeWay& make_way = {});

 private:
  void reserve();

  Descriptor spare_;  // released for a moment to accept, and close, one more connection
};

/// Raises this process's soft limit of open files to the hard one, and returns the limit. Processes
/// started later inherit it.
std::uint64_t raise_descriptor_limit();

/// `wanted` connections of strangers, or as many as leave most files to members and workers.
std::size_t strangers_within_files(std::size_t wanted);

}  // namespace ddprun
