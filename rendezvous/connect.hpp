#pragma once

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/address.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace ddprun {

/// A connected, non-blocking, tuned socket to `endpoint`, trying each of its addresses in turn.
/// Fails with kInvalidArgument if the host is unknown, kTimedOut, or kPeerLost (refused, reset).
Result<Descriptor> connect_to(const Endpoint& endpoint, TimePoint deadline);

/// A non-blocking, tuned socket on its way to `address`: once it is writable, finish_connect()
/// tells how that ended. Fails with kPeerLost if it is refused at once, kIo without a descriptor.
Result<Descriptor> start_connect(const Address& address);
Result<void> finish_connect(int socket);

/// Sends all of `bytes`. Fails with kTimedOut or kPeerLost.
Result<void> send_all(int socket, std::string_view bytes, TimePoint deadline);

/// Receives until `into` is full. Fails with kTimedOut or kPeerLost.
Result<void> receive_all(int socket, std::span<char> into, TimePoint deadline);

/// Receives at least one byte, at most as many as fit. Fails with kTimedOut or kPeerLost.
Result<std::size_t> receive_some(int socket, std::span<char> into, TimePoint deadline);

}  // namespace ddprun
