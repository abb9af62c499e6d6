#include "rendezvous/tcp.hpp"

#include "base/task_scope.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/name_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include <sys/socket.h>

namespace ddprun {
namespace {

// Long enough for an answer on a good network, short enough not to be noticed if the first of
// several addresses leads nowhere.
constexpr Duration kNextAddressAfter = std::chrono::milliseconds(100);

/// Attempts to connect to several addresses, of which the first to succeed wins.
struct Race {
  Timer& limit;  // cancelled to wake run()
  std::optional<tcp::socket> winner = std::nullopt;
  std::size_t running = 0;
  Error why = make_error(Errc::kPeerLost, "it has no address");  // the last failure
};

asio::awaitable<void> attempt(Address to, Race& race) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto socket = open_socket(race.limit.get_executor(), to);
  if (socket) {
    const auto [error] = co_await socket->async_connect(to, kTuple);
    if (error) {
      race.why = make_error(Errc::kPeerLost, error.message());
    } else if (!race.winner) {
      race.winner = std::move(*socket);
    }
  } else {
    race.why = socket.error();
  }
  --race.running;
  race.limit.cancel();
}

asio::awaitable<void> wake_at(TimePoint when, Race& race) {
  Timer timer(race.limit.get_executor(), when);
  co_await timer.async_wait(kTuple);
  race.limit.cancel();
}

asio::awaitable<Result<void>> run(Race& race, std::vector<Address> addresses) {
  TaskScope attempts(race.limit.get_executor());
  Result<void> outcome;
  TimePoint next_at = Clock::now();
  auto next = addresses.begin();
  while (outcome && !race.winner) {
    const bool has_next = next != addresses.end();
    if (has_next && (race.running == 0 || Clock::now() >= next_at)) {
      ++race.running;
      attempts.spawn(attempt(*next++, race));
      next_at = Clock::now() + kNextAddressAfter;
      if (next != addresses.end()) attempts.spawn(wake_at(next_at, race));
      continue;
    }
    if (race.running == 0) break;
    co_await race.limit.async_wait(kTuple);
    outcome = co_await unless_cancelled();
    if (outcome && !race.winner && Clock::now() >= race.limit.expiry()) {
      outcome = make_error(Errc::kTimedOut, "it does not answer");
    }
  }
  attempts.cancel();
  co_await attempts.join();
  co_return outcome;
}

}  // namespace

asio::awaitable<Result<void>> unless_cancelled() {
  const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
  if (asked.cancelled() == asio::cancellation_type::none) co_return Result<void>();
  co_return make_error(Errc::kCancelled, "asked to stop while waiting");
}

Result<tcp::socket> open_socket(const asio::any_io_executor& executor, const Address& to) {
  Descriptor socket(
      ::socket(to.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return make_errno_error(errno, "socket");
  tune_connection(socket.get());
  return adopt_socket(executor, std::move(socket));
}

Result<tcp::socket> adopt_socket(const asio::any_io_executor& executor, Descriptor connected) {
  tcp::socket socket(executor);
  boost::system::error_code error;
  static_cast<void>(
      socket.assign(tcp::v6(), connected.get(), error));  // Asio uses no more of it than "TCP"
  if (!error) static_cast<void>(connected.release());
  if (!error) static_cast<void>(socket.non_blocking(true, error));
  if (error) return make_errno_error(error.value(), "cannot watch a connection");
  return socket;
}

void close_socket(tcp::socket& socket) {
  boost::system::error_code error;
  if (socket.is_open()) const Descriptor closed(socket.release(error));
}

asio::awaitable<Result<tcp::socket>> connect_any(std::vector<Address> addresses, Timer& limit) {
  Race race{.limit = limit};
  const auto ended = co_await run(race, std::move(addresses));
  if (race.winner) co_return *std::move(race.winner);
  co_return ended ? race.why : ended.error();
}

asio::awaitable<Result<tcp::socket>> connect(
    Endpoint endpoint, NameService& names, Timer& limit, OnAddresses on_addresses) {
  co_await asio::this_coro::throw_if_cancelled(false);
  const std::string context = fmt::format("cannot connect to {}", endpoint.to_string());
  auto addresses = co_await names.look_up(endpoint, limit);
  if (!addresses) co_return with_context(context, addresses.error());
  if (on_addresses) on_addresses(*addresses);
  auto socket = co_await connect_any(std::move(*addresses), limit);
  if (!socket) co_return with_context(context, socket.error());
  co_return socket;
}

}  // namespace ddprun
