#include "rendezvous/dial.hpp"

#include "rendezvous/connect.hpp"
#include "rendezvous/errand.hpp"
#include "rendezvous/ready_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <ranges>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

// Long enough for an answer on a good network, short enough not to be felt where the first of
// several addresses leads nowhere.
constexpr Duration kNextAddressAfter = std::chrono::milliseconds(100);
constexpr Duration kNextQueryAfter = std::chrono::seconds(1);

/// Sockets on their way to the addresses of one endpoint.
class Attempts {
 public:
  static Result<Attempts> of(std::vector<Address> addresses) {
    auto ready = ReadySet::open(ReadySet::Trigger::kLevel);
    if (!ready) return ready.error();
    return Attempts(std::move(addresses), std::move(*ready));
  }

  /// Sets out for the next address that does not refuse at once.
  void begin_next() {
    while (next_ < addresses_.size()) {
      auto socket = start_connect(addresses_[next_++]);
      if (socket) {
        const auto added =
            ready_.add(socket->get(), {.readable = false, .writable = true}, sockets_.size());
        if (added) return sockets_.push_back(std::move(*socket));
        why_ = added.error();
      } else {
        why_ = socket.error();
      }
    }
  }

  /// The one that has arrived; those that were refused are forgotten.
  Descriptor arrived() {
    std::array<epoll_event, 8> events{};
    for (const epoll_event& event : ready_.poll(events)) {
      Descriptor& socket = sockets_[event.data.u64];
      const auto connected = finish_connect(socket.get());
      if (connected) {
        ready_.remove(socket.get());
        return std::move(socket);
      }
      why_ = connected.error();
      socket.reset();
    }
    return {};
  }

  bool has_next() const { return next_ < addresses_.size(); }
  bool is_waiting() const {
    return std::ranges::any_of(sockets_, [](const Descriptor& it) { return bool(it); });
  }
  int descriptor() const { return ready_.descriptor(); }
  const Error& why() const { return why_; }

 private:
  Attempts(std::vector<Address> addresses, ReadySet ready)
      : addresses_(std::move(addresses)), ready_(std::move(ready)) {}

  std::vector<Address> addresses_;
  std::size_t next_ = 0;
  ReadySet ready_;
  std::vector<Descriptor> sockets_;
  Error why_ = make_error(Errc::kPeerLost, "it has no address");
};

asio::awaitable<Result<Descriptor>> connect_to_any(std::vector<Address> addresses, Timer& limit) {
  auto attempts = Attempts::of(std::move(addresses));
  if (!attempts) co_return attempts.error();
  auto copy = DuplicateWatch::duplicate(attempts->descriptor(), "cannot connect");
  if (!copy) co_return copy.error();
  const auto executor = co_await asio::this_coro::executor;
  DuplicateWatch any_ready(executor, *std::move(copy));
  for (;;) {
    attempts->begin_next();
    if (!attempts->is_waiting() && !attempts->has_next()) co_return attempts->why();
    const TimePoint until = Clock::now() + kNextAddressAfter;
    Timer next(executor, attempts->has_next() ? std::min(until, limit.expiry()) : kNever);
    Timer& first = attempts->has_next() ? next : limit;
    // One condition, for g++ 12 awaits what stands behind a && whatever stands before it.
    while (attempts->is_waiting()) {
      const bool is_ready = co_await readable_before(any_ready.stream(), first);
      if (!is_ready) break;
      if (Descriptor socket = attempts->arrived()) co_return std::move(socket);
    }
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) {
      co_return make_error(Errc::kCancelled, "asked to stop while connecting");
    }
    if (Clock::now() >= limit.expiry()) {
      co_return make_error(Errc::kTimedOut, "it does not answer");
    }
  }
}

}  // namespace

struct NameService::Query {
  Endpoint endpoint;
  TimePoint since;
  std::shared_ptr<Errand<std::vector<Address>>> errand;
};

NameService::NameService() = default;
NameService::~NameService() = default;

asio::awaitable<Result<std::vector<Address>>> NameService::look_up(
    Endpoint endpoint, Timer& limit) {
  auto started = query_for(endpoint);
  if (!started) co_return started.error();
  const std::shared_ptr<Query> query = std::move(*started);
  auto answer = co_await query->errand->await(limit);
  if (answer) co_return *std::move(answer);
  co_return make_error(Errc::kTimedOut, "the name service does not answer");
}

Result<std::shared_ptr<NameService::Query>> NameService::query_for(const Endpoint& endpoint) {
  // Whoever asks later than the answer came wants to know it anew.
  std::erase_if(running_, [](const auto& it) { return it->errand->answer().has_value(); });
  const auto is_same = [&](const auto& it) { return it->endpoint == endpoint; };
  const auto newest_first = std::views::reverse(running_);
  const auto newest = std::ranges::find_if(newest_first, is_same);
  if (newest != newest_first.end()) {
    const auto of_this_name = std::ranges::count_if(running_, is_same);
    const bool is_late = Clock::now() >= (*newest)->since + of_this_name * kNextQueryAfter;
    if (!is_late || std::cmp_greater_equal(of_this_name, kOfOneNameMax)) return *newest;
  }
  if (running_.size() >= kQueriesMax) {
    return make_error(Errc::kLimit, fmt::format("{} other names are being looked up", kQueriesMax));
  }
  auto errand = Errand<std::vector<Address>>::begin(
      "cannot look up a name", [endpoint] { return ddprun::look_up(endpoint); });
  if (!errand) return errand.error();
  auto query = std::make_shared<Query>(
      Query{.endpoint = endpoint, .since = Clock::now(), .errand = *std::move(errand)});
  running_.push_back(query);
  return query;
}

asio::awaitable<Result<Descriptor>> dial(
    Endpoint endpoint, NameService& names, Timer& limit, OnAddresses on_addresses) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Result<std::vector<Address>> addresses = std::vector<Address>();
  if (const auto number = numeric_address(endpoint)) {
    addresses->push_back(*number);
  } else {
    addresses = co_await names.look_up(endpoint, limit);
  }
  const std::string context = fmt::format("cannot connect to {}", endpoint.to_string());
  if (!addresses) co_return with_context(context, addresses.error());
  if (on_addresses) on_addresses(*addresses);
  auto socket = co_await connect_to_any(std::move(*addresses), limit);
  if (!socket) co_return with_context(context, socket.error());
  co_return socket;
}

}  // namespace ddprun
