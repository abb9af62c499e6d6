#include "rendezvous/store_server.hpp"

#include "base/log.hpp"
#include "base/quiet_thread.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/own_address.hpp"
#include "rendezvous/stream_of.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include <malloc.h>
#include <unistd.h>

namespace ddprun {
namespace {

// One read of one connection; also the most that a connection may have carried out per turn.
constexpr std::size_t kReadBytes = 131'072;

constexpr std::size_t kAcceptsPerTurn = 64;
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

// Of people and programs that look at the job, at one time.
constexpr std::size_t kHttpSessionsMax = 256;

constexpr std::string_view kOfEarlierRound = "a store client of an earlier round";

/// Whether both ends of `socket` are on this machine, which may have several addresses. Those of
/// the loopback can each stand for a node.
bool is_local(int socket, const std::string& peer) {
  const auto own = own_end(socket);
  if (own && host_of(*own) == peer) return true;
  const auto number = numeric_address({.host = peer, .port = 0});
  return number && !peer.starts_with("127.") && own_among({*number}).has_value();
}

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
  if (!watch) return with_context("the store", watch.error());
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
      pages_(std::move(options.pages)),
      on_client_(std::move(options.on_client)),
      port_(port_of(sockets.front().get())),
      watch_(std::move(watch)),
      buffer_(kReadBytes),
      store_(std::make_unique<Store>(limits_)),
      access_(std::move(options.access)),
      accepting_(executor_),
      sessions_(executor_) {
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
  while (co_await watch_.wait()) {
    turn();
  }
  scope.cancel();
  co_await scope.join();
  accepting_.cancel();
  co_await accepting_.join();
  sessions_.cancel();
  co_await sessions_.join();
  close_all();
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
  clients_held_ = clients_hold();  // the next round's clients take as much
  has_client_ = false;
  expire_backlog();
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
      outcome = acceptor_.accept(listening.native_handle(), socket, [this] { return make_way(); });
      if (outcome == Acceptor::Outcome::kNothing || outcome == Acceptor::Outcome::kFailed) break;
      const bool is_there = outcome == Acceptor::Outcome::kAccepted;
      if (is_there && has_room()) {
        admit(std::move(socket));
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

StoreLink* StoreServer::admit(Descriptor socket) {
  tune_connection(socket.get());
  const Link id{++last_link_};
  auto link = std::make_unique<StoreLink>(id, std::move(socket), limits_);
  link->registered = kReadable;
  if (!may_use_store(link->socket())) link->bar("a store client from no node of this round");
  if (const auto added = watch_.sockets().add(link->socket(), kReadable, last_link_); !added) {
    spdlog::error("store port={}: a client was turned away: {}", port_, added.error().detail);
    return nullptr;
  }
  set_deadline(*link, Clock::now() + limits_.handshake);
  strangers_.insert(strangers_.end(), id);
  return links_.emplace(id, std::move(link)).first->second.get();
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

bool StoreServer::may_use_store(int socket) const {
  if (access_.who == StoreAccess::Who::kEveryone) return true;
  const auto peer = peer_address(socket);
  if (!peer) return true;  // it has gone
  const std::string host = host_of(*peer);
  // Connections to 127.0.1.1, to which Debian has a host's own name lead, come from 127.0.0.1.
  if (access_.who == StoreAccess::Who::kNodes && access_.hosts.contains(host)) return true;
  return host == "127.0.0.1" || is_local(socket, host);
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
  released_.clear();
  auto outcome = link.send();
  if (outcome) outcome = link.resume(*store_, released_);
  if (outcome && link.interest().readable)
    outcome = link.receive(buffer_.bytes(), *store_, released_);
  // Those that were woken first: finishing this link may close it.
  for (const Link woken : released_) {
    const auto found = links_.find(woken);
    if (found == links_.end()) continue;
    found->second->stop_waiting();
    if (woken != link.link()) update(*found->second, {});
  }
  update(link, outcome);
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
  const bool is_http = protocol == Protocol::kHttp && sessions_.size() < kHttpSessionsMax;
  if (is_http || (is_agent && for_agents_)) {
    const TimePoint deadline = link.deadline.value_or(Clock::now());
    watch_.sockets().remove(link.socket());
    StoreLink::Handover taken = link.hand_over();
    close(link);
    if (is_agent) return for_agents_(protocol, std::move(taken.socket), std::move(taken.received));
    return sessions_.spawn(
        serve_http(std::move(taken.socket), std::move(taken.received), deadline, pages_));
  }
  // One that looks for its job here does so several times a second: said once for each host.
  const std::string peer = link.peer();
  if (is_agent && !refused_.is_first(peer.substr(0, peer.rfind(':')))) {
    link.shut();
    return close(link);
  }
  std::string why = "neither a c10d store client, nor an agent, nor HTTP";
  if (is_agent) why = "an agent; this port serves a store only";
  if (protocol == Protocol::kHttp) why = fmt::format("more than {} askers", kHttpSessionsMax);
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
  const auto level = why.is(Errc::kPeerLost) ? spdlog::level::debug : spdlog::level::warn;
  spdlog::log(level, "store port={} peer={} closed: {}", port_, link.peer(), why.detail);
  link.shut();
  close(link);
}

void StoreServer::close(StoreLink& link) {
  const Link id = link.link();
  clients_held_ = std::max(clients_held_, clients_hold());
  set_deadline(link, std::nullopt);
  store_->lost(id);
  held_bytes_ -= link.counted_bytes;
  strangers_.erase(id);
  links_.erase(id);
}

/// Once most of what clients held is gone. glibc keeps freed memory that lies below memory in use,
/// and a hundred MiB stay after a thousand clients that each waited for a thousand keys.
void StoreServer::release_memory() {
  constexpr std::size_t kMany = 256;
  if (clients_held_ < kMany || clients_hold() >= clients_held_ / 4) return;
  clients_held_ = clients_hold();
  store_->shrink();
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
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
