#include "rendezvous/store_server.hpp"

#include "base/free_memory.hpp"
#include "base/log.hpp"
#include "base/quiet_thread.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/stream_of.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include <unistd.h>

namespace ddprun {
namespace {

// One read of one connection; also the most that a connection may have carried out per turn.
constexpr std::size_t kReadBytes = 131'072;

constexpr std::size_t kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

constexpr std::string_view kOfEarlierRound = "a store client of an earlier round";

/// A large store takes seconds to free, and heartbeats are answered on this thread. REQUIRES:
/// nobody else has a value of it.
void free_elsewhere(std::unique_ptr<Store> old) {
  constexpr std::size_t kLargeBytes = 16U << 20U;
  if (old->stored_bytes() < kLargeBytes) return;
  std::thread thread;
  const auto started = start_quiet_thread(
      thread, "cannot free a store on a thread", [freed = std::move(old)]() mutable {
        freed.reset();
      });
  if (started) thread.detach();  // touches nothing else; if it did not start, all is freed now
}

constexpr ReadySet::Interest kReadable{.readable = true, .writable = false};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::listen(
    asio::io_context& context, const StoreServerOptions& options) {
  auto sockets = listen_on(options.endpoint);
  if (!sockets) return sockets.error();
  auto watch = SocketWatch::open(context);
  if (!watch) return watch.error();
  return std::unique_ptr<StoreServer>(
      new StoreServer(context, options, std::move(*sockets), std::move(*watch)));
}

StoreServer::StoreServer(
    asio::io_context& context,
    StoreServerOptions options,
    std::vector<Descriptor> sockets,
    SocketWatch watch)
    : executor_(context.get_executor()),
      limits_(options.limits),
      for_agents_(std::move(options.for_agents)),
      on_client_(std::move(options.on_client)),
      port_(port_of(sockets.front().get())),
      watch_(std::move(watch)),
      buffer_(kReadBytes),
      store_(std::make_unique<Store>(limits_)),
      access_(std::move(options.access)),
      accepting_(executor_),
      http_(executor_, std::move(options.pages), limits_.http_sessions_max, release_free_memory) {
  for (Descriptor& socket : sockets) {
    listening_.emplace_back(stream_of(executor_, std::move(socket)));
  }
}

StoreServer::~StoreServer() {
  close_all();
}

asio::awaitable<void> StoreServer::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  TaskScope scope(executor_);
  is_serving_ = true;
  for (Listening& listening : listening_) {
    accepting_.spawn(accept_from(listening));
  }
  scope.spawn(watch_.keep_time([this](TimePoint now) { close_overdue(now); }));
  std::exception_ptr thrown;  // out of memory
  try {
    while (co_await watch_.wait()) {
      turn();
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  scope.cancel();
  co_await scope.join();
  accepting_.cancel();
  co_await accepting_.join();
  http_.cancel();
  co_await http_.join();
  close_all();
  if (thrown) std::rethrow_exception(thrown);
}

Result<void> StoreServer::listen_too(const Endpoint& endpoint) {
  auto sockets = listen_on(endpoint);
  if (!sockets) return sockets.error();
  for (Descriptor& socket : *sockets) {
    Listening& listening = listening_.emplace_back(stream_of(executor_, std::move(socket)));
    if (is_serving_) accepting_.spawn(accept_from(listening));
  }
  return {};
}

void StoreServer::begin_round(StoreAccess access) {
  access_ = std::move(access);
  std::vector<Link> stale;
  for (const auto& [id, link] : links_) {
    link->bar(kOfEarlierRound);
    if (link->protocol() == Protocol::kStore) stale.push_back(id);
  }
  for (const Link id : stale) {
    StoreLink& link = *links_.at(id);
    link.send_and_shut();
    close(link);
  }
  free_elsewhere(std::exchange(store_, std::make_unique<Store>(limits_)));
  taken_max_ = taken_bytes();  // the next round's clients take as much
  has_client_ = false;
  expire_backlog();
}

void StoreServer::admit(std::set<std::string> hosts) {
  access_.hosts.merge(std::move(hosts));
}

void StoreServer::close_waiting() {
  for (const Link id : store_->waiting()) {
    StoreLink& link = *links_.at(id);
    link.send_and_shut();
    close(link);
  }
}

// A connection that nobody has accepted yet was opened in the earlier round too. Who it is shows in
// its first bytes: only a store client is of that round.
void StoreServer::expire_backlog() {
  for (Listening& listening : listening_) {
    for (;;) {
      Descriptor socket;
      const auto outcome = acceptor_.accept(listening.native_handle(), socket);
      if (outcome == Acceptor::Outcome::kNothing || outcome == Acceptor::Outcome::kFailed) break;
      // Nobody is read, and so nobody makes way, in the middle of what begins the round.
      if (outcome == Acceptor::Outcome::kTurnedAway || is_full() || has_many_strangers()) continue;
      if (StoreLink* const link = admit(std::move(socket))) link->bar(kOfEarlierRound);
    }
  }
}

asio::awaitable<void> StoreServer::accept_from(Listening& listening) {
  for (;;) {
    const auto [error] =
        co_await listening.async_wait(asio::posix::descriptor_base::wait_read, kTuple);
    if (error) co_return;
    auto outcome = Acceptor::Outcome::kAccepted;
    for (std::size_t i = 0; i < kAcceptsPerTurn; ++i) {
      Descriptor socket;
      outcome = acceptor_.accept(
          listening.native_handle(), socket, [this] { return make_way() || http_.make_way(); });
      if (outcome == Acceptor::Outcome::kNothing || outcome == Acceptor::Outcome::kFailed) break;
      const bool is_there = outcome == Acceptor::Outcome::kAccepted;
      if (is_there && has_room()) {
        StoreLink* const link = admit(std::move(socket));
        if (link == nullptr) continue;
        attend(*link);  // it has most often said by now what it wants
        turned_away_ = false;
      } else if (!std::exchange(turned_away_, true)) {
        spdlog::error(
            "store port={} connections={}: a client was turned away, {}",
            port_,
            links_.size(),
            is_there ? "connections_max is reached"
                     : "no file descriptor is left; raise the limit (ulimit -n)");
      }
    }
    if (outcome != Acceptor::Outcome::kFailed) continue;
    // The socket stays readable, and without a pause this would keep a processor busy.
    Timer pause(executor_, Clock::now() + kAcceptPause);
    co_await pause.async_wait(kTuple);
  }
}

/// Null: it was turned away.
StoreLink* StoreServer::admit(Descriptor socket) {
  tune_connection(socket.get());
  const Link id{++last_link_};
  StoreLink* link = nullptr;
  const bool is_there = within_memory(id, [&] {
    auto owned = std::make_unique<StoreLink>(id, std::move(socket), limits_);
    link = links_.emplace(id, std::move(owned)).first->second.get();
    link->registered = kReadable;
    if (!access_.admits(link->socket())) link->bar("a store client from no node of this round");
    strangers_.insert(strangers_.end(), id);
    set_deadline(*link, Clock::now() + limits_.handshake);
  });
  if (!is_there) return nullptr;
  if (const auto added = watch_.sockets().add(link->socket(), kReadable, last_link_); !added) {
    spdlog::error("store port={}: a client was turned away: {}", port_, added.error().detail);
    close(*link);
    return nullptr;
  }
  return link;
}

/// Whether one more may come, if need be in place of a stranger.
bool StoreServer::has_room() {
  return (!is_full() && !has_many_strangers()) || make_way();
}

bool StoreServer::has_many_strangers() const {
  return strangers_.size() >= strangers_within_files(limits_.strangers_max);
}

/// Closes the stranger that has been silent for longest. What one has sent may not have been read
/// yet, so it is read first: no member is closed because this thread was busy.
bool StoreServer::make_way() {
  while (!strangers_.empty()) {
    const Link oldest = *strangers_.begin();
    const std::size_t before = links_.size();
    attend(*links_.at(oldest));
    if (links_.size() < before) return true;
    if (!strangers_.contains(oldest)) continue;
    // Thousands of these may come every second, and each would be a line.
    StoreLink& link = *links_.at(oldest);
    spdlog::debug("store port={} peer={} closed: it made way for others", port_, link.peer());
    link.shut();
    close(link);
    return true;
  }
  return false;
}

// One look at all connections that are ready: each is read once, so each waits for at most one
// read's worth of work of every other.
void StoreServer::turn() {
  for (const epoll_event& event : watch_.ready()) {
    const auto found = links_.find(Link{event.data.u64});
    if (found == links_.end()) continue;
    if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0U) found->second->expect_end();
    attend(*found->second);
  }
  store_->free_taken();
  release_memory();
}

void StoreServer::attend(StoreLink& link) {
  const Link id = link.link();
  released_.clear();
  Result<void> outcome;
  bool is_there = within_memory(id, [&] { outcome = exchange(link); });
  // Those that were woken first: finishing this link may close it.
  for (const Link woken : released_) {
    const auto found = links_.find(woken);
    if (found == links_.end()) continue;
    const bool stays = within_memory(woken, [&] {
      found->second->stop_waiting();
      if (woken != id) update(*found->second, {});
    });
    if (woken == id) is_there = stays;
  }
  if (is_there) within_memory(id, [&] { update(link, outcome); });
}

Result<void> StoreServer::exchange(StoreLink& link) {
  auto outcome = link.send();
  if (outcome) outcome = link.resume(*store_, released_);
  if (outcome && link.interest().readable)
    outcome = link.receive(buffer_.bytes(), *store_, released_);
  return outcome;
}

/// Does `work` for `link`. If memory runs out, closes that one, and yields false.
template <class Work>
bool StoreServer::within_memory(Link link, Work work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    const auto found = links_.find(link);
    if (found != links_.end()) close_with(*found->second, make_error(Errc::kIo, "out of memory"));
    return false;
  }
}

void StoreServer::update(StoreLink& link, const Result<void>& outcome) {
  const auto sent = link.send();
  if (!outcome) return close_with(link, outcome.error());
  if (!sent) return close_with(link, sent.error());
  if (const auto counted = count_held(link); !counted) return close_with(link, counted.error());
  if (link.finished()) {
    link.shut();
    return close(link);
  }
  if (link.protocol() == Protocol::kStore) {
    watch_progress(link);
  } else if (link.protocol() != Protocol::kUndecided) {
    return dispatch(link);
  }
  const ReadySet::Interest interest = link.interest();
  // The socket is not reported again for what was left there, unless it is registered again.
  if (interest == link.registered && !link.is_unfinished()) return;
  watch_.sockets().change(link.socket(), interest, static_cast<std::uint64_t>(link.link()));
  link.registered = interest;
}

// Somebody else's protocol: the socket goes to the part that speaks it, or is closed.
void StoreServer::dispatch(StoreLink& link) {
  const Protocol protocol = link.protocol();
  const bool is_agent = protocol == Protocol::kAgent || protocol == Protocol::kLifeline;
  if (protocol == Protocol::kHttp || (is_agent && for_agents_)) {
    const TimePoint deadline = link.deadline.value_or(Clock::now());
    watch_.sockets().remove(link.socket());
    StoreLink::Handover taken = link.hand_over();
    close(link);
    if (is_agent) return for_agents_(protocol, std::move(taken.socket), std::move(taken.received));
    return http_.adopt(std::move(taken.socket), std::move(taken.received), deadline);
  }
  // One that looks for its job here does so several times a second: said once for each host.
  const std::string peer = link.peer();
  if (is_agent && !refused_.is_first(peer.substr(0, peer.rfind(':')))) {
    link.shut();
    return close(link);
  }
  std::string why = "neither a c10d store client, nor an agent, nor HTTP";
  if (is_agent) why = "an agent; this port serves a store only";
  close_with(link, make_error(Errc::kProtocol, why));
}

Result<void> StoreServer::count_held(StoreLink& link) {
  const std::size_t before = std::exchange(link.counted_bytes, link.held_bytes());
  held_bytes_ += link.counted_bytes;
  held_bytes_ -= before;
  if (held_bytes_ <= limits_.held_bytes_max || link.counted_bytes <= before) return {};
  return make_error(
      Errc::kLimit,
      fmt::format(
          "requests and replies in progress take {} bytes, limit {}",
          held_bytes_,
          limits_.held_bytes_max));
}

void StoreServer::watch_progress(StoreLink& link) {
  if (link.validated() && !std::exchange(link.greeted, true)) {
    set_deadline(link, std::nullopt);
    strangers_.erase(link.link());
    if (!std::exchange(has_client_, true) && on_client_) on_client_();
  }
  if (!link.greeted) return;
  const bool progressed = std::exchange(link.progressed, false);
  if (link.unsent() == 0) {
    if (link.deadline) set_deadline(link, std::nullopt);
  } else if (progressed || !link.deadline) {
    set_deadline(link, Clock::now() + limits_.slow_reader);
  }
}

void StoreServer::set_deadline(StoreLink& link, std::optional<TimePoint> deadline) {
  watch_.set_deadline(link.link(), link.deadline, deadline);
}

void StoreServer::close_overdue(TimePoint now) {
  while (const auto overdue = watch_.take_overdue(now)) {
    StoreLink& link = *links_.at(*overdue);
    close_with(
        link,
        make_error(
            Errc::kTimedOut,
            link.greeted ? fmt::format("{} bytes of replies are not taken", link.unsent())
                         : fmt::format("no handshake in {} s", to_seconds(limits_.handshake))));
  }
}

void StoreServer::close_with(StoreLink& link, const Error& why) {
  try {
    log_close(link, why);
  } catch (const std::bad_alloc&) {  // none is left for a line either
    closes_.leave_out();
  }
  link.shut();
  close(link);
}

void StoreServer::log_close(const StoreLink& link, const Error& why) {
  if (why.is(Errc::kPeerLost)) {
    return spdlog::debug("store port={} peer={} closed: {}", port_, link.peer(), why.detail);
  }
  // Whoever reaches the port can cause thousands of these every second.
  const auto left_out = closes_.take(Clock::now());
  if (!left_out) return;
  const std::string others = *left_out == 0 ? "" : fmt::format("; so were {} others", *left_out);
  spdlog::warn("store port={} peer={} closed: {}{}", port_, link.peer(), why.detail, others);
}

void StoreServer::close(StoreLink& link) {
  const Link id = link.link();
  taken_max_ = std::max(taken_max_, taken_bytes());
  set_deadline(link, std::nullopt);
  store_->lost(id);
  held_bytes_ -= link.counted_bytes;
  strangers_.erase(id);
  links_.erase(id);
}

/// What clients take in memory: their connections, what is stored and what is in progress.
std::size_t StoreServer::taken_bytes() const {
  return links_.size() * sizeof(StoreLink) + held_bytes_ + store_->bytes();
}

/// Once most of what clients took is gone. glibc keeps freed memory that lies below memory in use,
/// and a hundred MiB stay after a thousand clients that each waited for a thousand keys.
void StoreServer::release_memory() {
  constexpr std::size_t kMuchBytes = 4U << 20U;
  taken_max_ = std::max(taken_max_, taken_bytes());
  if (taken_max_ < kMuchBytes || taken_bytes() >= taken_max_ / 4) return;
  taken_max_ = taken_bytes();
  try {
    store_->shrink();
  } catch (const std::bad_alloc&) {
    spdlog::debug("store port={}: its table of keys keeps its size", port_);
  }
  release_free_memory();
}

void StoreServer::close_all() {
  for (const auto& [id, link] : links_) {
    link->send_and_shut();
  }
  links_.clear();
  strangers_.clear();
  held_bytes_ = 0;
  store_ = std::make_unique<Store>(limits_);
}

}  // namespace ddprun
