#include "rendezvous/store_client.hpp"

#include "rendezvous/core/store_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 10ms;
constexpr Duration kPauseMax = 1s;

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

template <class Number>
void put(std::string& request, Number number) {
  request.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <class Number>
Result<Number> receive_number(BlockingSocket& socket, TimePoint deadline) {
  Number number{};
  auto const got =
      socket.receive_all(std::span(reinterpret_cast<char*>(&number), sizeof(number)), deadline);
  if (!got) return got.error();
  return number;
}

}  // namespace

Result<StoreClient> StoreClient::connect(const Endpoint& endpoint, TimePoint deadline) {
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kPauseMax)) {
    auto client = try_connect(endpoint, deadline);
    if (client || !client.error().is(Errc::kPeerLost)) return client;
    if (Clock::now() + pause >= deadline) return client;
    std::this_thread::sleep_for(pause);
  }
}

Result<StoreClient> StoreClient::try_connect(const Endpoint& endpoint, TimePoint deadline) {
  auto socket = BlockingSocket::connect(endpoint, deadline);
  if (!socket) return socket.error();
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  std::string opening;
  put(opening, StoreOp::kValidate);
  put(opening, kStoreMagic);
  put(opening, StoreOp::kPing);
  put(opening, nonce);
  auto const sent = socket->send_all(opening, deadline);
  if (!sent) return sent.error();
  const auto reply = receive_number<std::uint32_t>(*socket, deadline);
  if (!reply) return with_context(endpoint.to_string(), reply.error());
  if (*reply != nonce) {
    return make_error(
        Errc::kProtocol, fmt::format("{}: wrong reply to PING", endpoint.to_string()));
  }
  return StoreClient(*std::move(socket));
}

Result<bool> StoreClient::has(std::string_view key, TimePoint deadline) {
  const std::string stored = fmt::format("/{}", key);
  std::string request;
  put(request, StoreOp::kCheck);
  put(request, std::uint64_t{1});
  put(request, std::uint64_t{stored.size()});
  request += stored;
  auto const sent = socket_.send_all(request, deadline);
  if (!sent) return sent.error();
  const auto reply = receive_number<std::uint8_t>(socket_, deadline);
  if (!reply) return reply.error();
  return *reply == kKeysExist;
}

}  // namespace ddprun
