#include "rendezvous/links.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/contain.hpp"
#include "rendezvous/listener.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <new>
#include <optional>

namespace ddprun {
namespace {

constexpr std::size_t kInboxBytes = 131'072;

std::optional<Endpoint> as_endpoint(const std::optional<Address>& address) {
  if (!address) return std::nullopt;
  return Endpoint{.host = host_of(*address), .port = address->port()};
}

}  // namespace

Links::Links(
    asio::io_context& context,
    const LinkLimits& limits,
    OnEvent on_event,
    AuthKey key,
    OpenKey open_key)
    : executor_(context.get_executor()),
      limits_(limits),
      on_event_(std::move(on_event)),
      key_(std::move(key)),
      open_key_(std::move(open_key)),
      buffer_(kInboxBytes),
      tasks_(executor_),
      all_closed_(executor_, kNever) {}

asio::awaitable<void> Links::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  Timer end(executor_, kNever);
  co_await end.async_wait(kTuple);
  co_await leave();
  tasks_.cancel();
  co_await tasks_.join();
  links_.clear();
  strangers_.clear();
}

asio::awaitable<void> Links::leave() {
  co_await asio::this_coro::reset_cancellation_state();
  co_await asio::this_coro::throw_if_cancelled(false);
  events_.clear();
  for (const auto& [link, call] : std::exchange(calling_, {})) {
    call.limit->expires_at(Clock::now());
  }
  std::vector<Link> all;
  all.reserve(links_.size());
  for (const auto& [link, connection] : links_) {
    all.push_back(link);
  }
  for (const Link link : all) {
    close(link);
  }
  all_closed_.expires_at(Clock::now() + limits_.linger);
  if (!links_.empty()) co_await all_closed_.async_wait(kTuple);
}

void Links::call(Link link, Endpoint to) {
  DDPRUN_CHECK(static_cast<std::uint64_t>(link) % 2 == 1 && !calling_.contains(link));
  auto limit = std::make_shared<Timer>(executor_, Clock::now() + limits_.call);
  calling_.emplace(link, Call{.to = to, .limit = limit});
  tasks_.spawn(contain(link, carry_out(link, std::move(to), std::move(limit))));
}

/// Runs `task`, which is part of the work for `link`. What it throws ends that link alone.
asio::awaitable<void> Links::contain(Link link, asio::awaitable<void> task) {
  return ddprun::contain(std::move(task), [this, link](const std::exception& thrown) {
    abandon(link, thrown);
    deliver();
  });
}

asio::awaitable<void> Links::carry_out(Link link, Endpoint to, std::shared_ptr<Timer> limit) {
  co_await asio::post(executor_, asio::use_awaitable);  // out of call()
  const auto on_addresses = [&](const std::vector<Address>& addresses) {
    if (!reports_addresses_) return;
    enqueue(Resolved{.link = link, .to = to, .addresses = addresses});
    deliver();
  };
  auto socket = co_await connect(to, names_, *limit, on_addresses);
  if (!calling_.contains(link)) co_return;  // close() has given it up
  if (!socket) {
    // Tried again several times a second, for as long as the node looks for a leader.
    const std::string& why = socket.error().detail;
    if (refused_.is_first(why)) spdlog::debug("agents: {}", why);
    enqueue(Closed{.link = link, .why = socket.error()});
    calling_.erase(link);
    co_return deliver();
  }
  auto admitted = std::make_shared<AgentLink>(
      link, std::move(*socket), std::move(to), proof_of(AuthProof::Side::kCaller));
  links_.emplace(link, admitted);
  calling_.erase(link);  // not before: abandon() finds it in one of the two
  admitted->deadline = Clock::now() + limits_.handshake;
  co_await serve(std::move(admitted), "");
}

void Links::adopt(Descriptor socket, std::string received) {
  if (!has_room()) {
    if (!std::exchange(turned_away_, true)) {
      spdlog::error(
          "agents connections={}: an agent was turned away, connections_max is reached",
          links_.size());
    }
    return;
  }
  turned_away_ = false;
  auto adopted = adopt_socket(executor_, std::move(socket));
  if (!adopted) return spdlog::error("an agent was turned away: {}", adopted.error().detail);
  last_caller_ += 2;
  const auto link = std::make_shared<AgentLink>(
      Link{last_caller_}, *std::move(adopted), proof_of(AuthProof::Side::kCalled));
  links_.emplace(link->link(), link);
  strangers_.insert(strangers_.end(), link->link());
  link->deadline = Clock::now() + limits_.handshake;
  try {
    tasks_.spawn_or_throw(contain(link->link(), serve(link, std::move(received))));
  } catch (const std::bad_alloc& thrown) {
    abandon(link->link(), thrown);
  }
}

/// Whether one more caller may come, if need be in place of one that has said nothing for longest.
bool Links::has_room() {
  const bool has_many = strangers_.size() >= strangers_within_files(limits_.connections_max);
  if (links_.size() < limits_.connections_max && !has_many) return true;
  if (strangers_.empty()) return false;
  erase(links_.at(*strangers_.begin()));
  return true;
}

asio::awaitable<void> Links::serve(Shared link, std::string received) {
  co_await asio::this_coro::throw_if_cancelled(false);
  static_cast<void>(co_await asio::post(executor_, kTuple));  // out of adopt()
  if (!link->connection().is_open()) co_return;
  // The opening and the proof of one that we called; those who prove nothing send their hello.
  const bool has_to_prove = !link->was_called() && !link->is_proved();
  auto outcome = has_to_prove ? link->flush(limits_.unsent_bytes_max) : Result<void>();
  if (outcome) outcome = link->take(received, messages_);
  update(link, outcome);
  deliver();
  while (link->connection().is_open()) {
    // It may have been cancelled on its way here, where no wait of its own was there to end.
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
    if (link->deadline) {
      outcome = co_await link->connection().wait(tcp::socket::wait_read, link->deadline);
    } else {
      const auto [error] = co_await link->connection().async_wait(tcp::socket::wait_read);
      if (error) outcome = co_await unless_cancelled();
    }
    if (!outcome && outcome.error().is(Errc::kCancelled)) co_return;
    if (!outcome) {
      outcome = make_error(
          Errc::kTimedOut,
          link->unsent() > 0 ? fmt::format("it has not taken {} bytes", link->unsent())
                             : fmt::format("no handshake in {} s", to_seconds(limits_.handshake)));
    } else if (link->connection().is_open()) {
      outcome = link->receive(buffer_.bytes(), messages_);
    }
    if (link->connection().is_open()) update(link, outcome);
    deliver();
    if (link->connection().is_open() && !link->sealed_key().empty()) co_await open_key_of(link);
  }
}

/// Goes on with the proof of a node that we called, once MUNGE has opened its key.
asio::awaitable<void> Links::open_key_of(Shared link) {
  const auto key = co_await open_key_(link->sealed_key(), Clock::now() + limits_.handshake);
  if (!link->connection().is_open() || link->is_ending()) co_return;
  if (!co_await unless_cancelled()) co_return;
  update(link, link->take_key(key, messages_));
  deliver();
}

/// Waits for room to send. A peer that reads nothing for too long is given up, unless its next step
/// has a deadline anyway.
asio::awaitable<void> Links::write_rest(Shared link) {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (link->connection().is_open() && link->unsent() > 0) {
    const auto limit =
        link->deadline ? std::nullopt : std::optional(Clock::now() + limits_.slow_reader);
    auto room = co_await link->connection().wait(tcp::socket::wait_write, limit);
    if (!room && room.error().is(Errc::kCancelled)) co_return;
    if (!link->connection().is_open()) break;
    if (!room) {
      room = make_error(Errc::kTimedOut, fmt::format("it has not taken {} bytes", link->unsent()));
    }
    update(link, room ? link->flush(limits_.unsent_bytes_max) : room);
    deliver();
  }
  link->is_writing = false;
}

void Links::send(Link link, const Message& message) {
  const Shared found = find(link);
  if (found == nullptr || found->is_ending()) return;
  const auto added = found->add(message);
  if (!added || !is_delivering_) {
    update(found, added ? found->flush(limits_.unsent_bytes_max) : added);
    if (!is_delivering_ && !events_.empty()) tasks_.spawn(deliver_soon());
  } else if (written_to_ != link) {
    send_written();
    written_to_ = link;
  }
}

void Links::flush(const Shared& link) {
  update(link, link->flush(limits_.unsent_bytes_max));
}

void Links::send_written() {
  const auto link = std::exchange(written_to_, std::nullopt);
  const Shared found = link ? find(*link) : nullptr;
  if (found != nullptr && !found->is_ending()) flush(found);
}

void Links::close(Link link) {
  std::erase_if(events_, [link](const Event& event) {
    return std::visit([](const auto& it) { return it.link; }, event) == link;
  });
  if (const auto calling = calling_.find(link); calling != calling_.end()) {
    calling->second.limit->expires_at(Clock::now());
    calling_.erase(calling);
  }
  if (const Shared found = find(link); found != nullptr && !found->is_ending()) end(found);
}

std::optional<Endpoint> Links::address_of(Link link) {
  const Shared found = find(link);
  if (found == nullptr) return std::nullopt;
  return as_endpoint(peer_address(found->connection().native_handle()));
}

std::optional<Endpoint> Links::own_address_on(Link link) {
  const Shared found = find(link);
  if (found == nullptr) return std::nullopt;
  return as_endpoint(own_end(found->connection().native_handle()));
}

Mac Links::mac_of(Link link) const {
  const Shared found = find(link);
  return found == nullptr ? Mac() : found->mac();
}

std::optional<AuthProof> Links::proof_of(AuthProof::Side side) const {
  if (key_.method == AuthMethod::kNone) return std::nullopt;
  return AuthProof(side, key_, random_nonce());
}

Links::Shared Links::find(Link link) const {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void Links::update(const Shared& link, const Result<void>& outcome) {
  // A refusal may come before the proof; what a link has received is reported after the link.
  const bool is_there = (link->is_proved() && !link->is_ending()) || !messages_.empty();
  if (!link->was_called() && is_there && !std::exchange(link->is_announced, true)) {
    enqueue(Connected{.link = link->link()});
  }
  for (Message& message : messages_) {
    enqueue(Received{.link = link->link(), .message = std::move(message)});
  }
  messages_.clear();
  if (!outcome) return fail(link, outcome.error());
  if (link->has_spoken()) strangers_.erase(link->link());
  const bool is_greeted = link->was_called() ? link->has_spoken() : link->is_announced;
  if (is_greeted && !link->is_ending() && std::exchange(link->deadline, std::nullopt)) {
    if (link->is_writing) link->connection().wake();  // from now on under the limit of its own
  }
  if (link->unsent() > 0 && !std::exchange(link->is_writing, true)) {
    tasks_.spawn_or_throw(contain(link->link(), write_rest(link)));
  }
}

// The peer reads to our end and then closes, or time runs out: closing before it has read could
// discard what was sent last.
void Links::end(const Shared& link) {
  link->end();
  link->deadline = Clock::now() + limits_.linger;
  link->connection().wake();
  flush(link);
}

void Links::fail(const Shared& link, const Error& why) {
  if (link->is_ending()) return erase(link);
  const bool is_stranger = link->was_called() && !link->has_spoken();
  // A call in vain may be repeated many times, and the caller knows of it.
  const bool is_in_vain = !link->was_called() && !link->has_spoken();
  // A node that looks for its job here calls several times a second: logged once for each host.
  const std::string peer = link->peer();
  const bool is_logged =
      is_stranger && !refused_.is_first(peer.substr(0, peer.rfind(':')) + why.detail);
  const bool is_usual = why.is(Errc::kPeerLost) || is_in_vain || is_logged;
  const auto level = is_usual ? spdlog::level::debug : spdlog::level::warn;
  spdlog::log(level, "agents peer={} closed: {}", peer, why.detail);
  if (!is_stranger) {
    const bool has_ended = why.is(Errc::kProtocol) || why.is(Errc::kPeerLost);
    enqueue(Closed{
        .link = link->link(),
        .why = with_context(peer, why),
        .is_foreign = is_in_vain && has_ended});
    return erase(link);
  }
  // It may be a ddprun of another version, which reads this much.
  const Refuse refusal{.job = {}, .exit_status = kExitUsage, .why = why.detail};
  const bool can_tell = why.is(Errc::kProtocol) && link->add(refusal);
  can_tell ? end(link) : erase(link);
}

/// Closes `link`, for which `thrown` was thrown. If not even this is possible, memory has run out
/// for the whole process, which ends.
// NOLINTNEXTLINE(bugprone-exception-escape): as it should
void Links::abandon(Link link, const std::exception& thrown) noexcept {
  messages_.clear();  // those of this link
  const Shared found = find(link);
  const auto call = calling_.find(link);
  const bool has_call = call != calling_.end();
  if (found == nullptr && !has_call) return;  // it is closed already
  const std::string peer = has_call ? call->second.to.to_string() : found->peer();
  const Error why = make_error(Errc::kIo, fmt::format("internal error: {}", thrown.what()));
  spdlog::error("agents peer={} closed: {}", peer, why.detail);
  const bool is_known =
      has_call || (!found->is_ending() && (!found->was_called() || found->has_spoken()));
  if (is_known) enqueue(Closed{.link = link, .why = with_context(peer, why)});
  calling_.erase(link);
  if (found != nullptr) erase(found);
}

void Links::erase(const Shared& link) {
  strangers_.erase(link->link());
  if (const auto found = links_.find(link->link()); found != links_.end()) {
    const Shared kept = std::move(found->second);  // `link` may be the one in it
    links_.erase(found);
    kept->connection().close();
  }
  if (links_.empty()) all_closed_.cancel();
}

// Reported later, by deliver(): the cause may be in the middle of something.
void Links::enqueue(Event event) {
  events_.push_back(std::move(event));
}

asio::awaitable<void> Links::deliver_soon() {
  co_await asio::post(executor_, asio::use_awaitable);
  deliver();
}

// What on_event_ throws ends the process here. Caught by contain(), it would close a link that has
// nothing to do with it.
void Links::deliver() noexcept {
  is_delivering_ = true;
  do {
    while (!events_.empty()) {
      Event event = std::move(events_.front());
      events_.pop_front();
      on_event_(std::move(event));
    }
    const auto link = written_to_;
    try {
      send_written();  // which may find that the other side is gone
    } catch (const std::exception& thrown) {
      abandon(*link, thrown);  // not the link that contain() serves
    }
  } while (!events_.empty());
  is_delivering_ = false;
}

}  // namespace ddprun
