#pragma once

// TCP sockets of Asio, as ddprun opens, adopts and connects them.

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "rendezvous/address.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <vector>

namespace ddprun {

class NameService;

using asio::ip::tcp;

/// Fails with kCancelled if the calling coroutine was cancelled.
asio::awaitable<Result<void>> unless_cancelled();

/// A tuned, non-blocking socket for the family of `to`. Asio's own open() does not set
/// close-on-exec, so workers would inherit the connection. Fails with kIo.
Result<tcp::socket> open_socket(const asio::any_io_executor& executor, const Address& to);

/// `connected`, a socket of TCP, as one of Asio. Fails with kIo, and then closes it.
Result<tcp::socket> adopt_socket(const asio::any_io_executor& executor, Descriptor connected);

/// Closes `socket` and stops watching it, although other processes hold the same connection:
/// Asio's own close() may leave it in the epoll set, where its events would go to another socket.
void close_socket(tcp::socket& socket);

/// Connects to the first of `addresses` that answers; each is tried 100 ms after the one before, in
/// parallel. Fails with kTimedOut once `limit` has expired, kPeerLost, or kIo.
asio::awaitable<Result<tcp::socket>> connect_any(std::vector<Address> addresses, Timer& limit);

using OnAddresses = std::function<void(const std::vector<Address>&)>;

/// Resolves `endpoint` and connects. Fails as NameService::look_up() and connect_any() do. To give
/// up, set `limit` to the past. Reports to `on_addresses`, if there is one, the addresses of the
/// endpoint before it connects. REQUIRES: `names` and `limit` outlive the call.
asio::awaitable<Result<tcp::socket>> connect(
    Endpoint endpoint, NameService& names, Timer& limit, OnAddresses on_addresses = {});

}  // namespace ddprun
