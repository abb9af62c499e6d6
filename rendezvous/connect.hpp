#pragma once

#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace ddprun {

/// A connected, non-blocking, tuned socket to `endpoint`, trying each of its addresses in turn.
/// Fails with kInvalidArgument if the host is unknown, kTimedOut, or kPeerLost (refused, reset).
Result<Descriptor> connect_to(const Endpoint& endpoint, TimePoint deadline);

/// Sends all of `bytes`. Fails with kTimedOut or kPeerLost.
Result<void> send_all(int socket, std::string_view bytes, TimePoint deadline);

/// Receives until `into` is full. Fails with kTimedOut or kPeerLost.
Result<void> receive_all(int socket, std::span<char> into, TimePoint deadline);

/// Receives at least one byte, at most as many as fit. Fails with kTimedOut or kPeerLost.
Result<std::size_t> receive_some(int socket, std::span<char> into, TimePoint deadline);

}  // namespace ddprun
