#include "rendezvous/links.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "rendezvous/address.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kReadBytes = 131'072;

constexpr ReadySet::Interest kReadable{.readable = true, .writable = false};

std::optional<Endpoint> as_endpoint(const std::optional<Address>& address) {
  if (!address) return std::nullopt;
  return Endpoint{.host = address->host(), .port = address->port()};
}

}  // namespace

Result<std::unique_ptr<Links>> Links::open(
    asio::io_context& context, const LinkLimits& limits, OnEvent on_event, Mac mac) {
  auto watch = SocketWatch::open(context, ReadySet::Trigger::kEdge);
  if (!watch) return with_context("the agents", watch.error());
  return std::unique_ptr<Links>(
      new Links(context, limits, std::move(on_event), std::move(mac), std::move(*watch)));
}

Links::Links(
    asio::io_context& context,
    const LinkLimits& limits,
    OnEvent on_event,
    Mac mac,
    SocketWatch watch)
    : executor_(context.get_executor()),
      limits_(limits),
      on_event_(std::move(on_event)),
      mac_(std::move(mac)),
      watch_(std::move(watch)),
      buffer_(kReadBytes),
      calls_(executor_) {}

asio::awaitable<void> Links::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  TaskScope scope(executor_);
  scope.spawn(watch_.keep_time([this](TimePoint now) { on_time(now); }));
  while (co_await watch_.wait()) {
    turn();
  }
  calls_.cancel();
  co_await calls_.join();
  co_await leave();
  scope.cancel();
  co_await scope.join();
  links_.clear();
}

asio::awaitable<void> Links::leave() {
  using namespace asio::experimental::awaitable_operators;
  co_await asio::this_coro::reset_cancellation_state();
  co_await asio::this_coro::throw_if_cancelled(false);
  events_.clear();
  std::vector<Link> all;
  all.reserve(links_.size());
  for (const auto& [link, connection] : links_) {
    all.push_back(link);
  }
  for (const Link link : all) {
    close(link);
  }
  Timer limit(executor_, Clock::now() + limits_.linger);
  while (!links_.empty() && Clock::now() < limit.expiry()) {
    const auto first = co_await (watch_.wait() || limit.async_wait(kTuple));
    if (first.index() == 1) co_return;
    turn();
  }
}

void Links::call(Link link, Endpoint to) {
  DDPRUN_CHECK(static_cast<std::uint64_t>(link) % 2 == 1 && !calling_.contains(link));
  auto limit = std::make_unique<Timer>(executor_, Clock::now() + limits_.call);
  calling_.emplace(link, limit.get());
  calls_.spawn(carry_out(link, std::move(to), std::move(limit)));
}

asio::awaitable<void> Links::carry_out(Link link, Endpoint to, std::unique_ptr<Timer> limit) {
  const auto on_addresses = [&](const std::vector<Address>& addresses) {
    if (reports_addresses_) tell(Resolved{.link = link, .to = to, .addresses = addresses});
  };
  auto socket = co_await dial(to, names_, *limit, on_addresses);
  if (calling_.erase(link) == 0) co_return;  // given up by close()
  if (!socket) {
    spdlog::debug("agents link={}: {}", static_cast<std::uint64_t>(link), socket.error().detail);
    tell(Closed{.link = link, .why = socket.error()});
    co_return;
  }
  AgentLink* const admitted = admit(std::make_unique<AgentLink>(
      link, std::move(*socket), std::move(to), proof_of(SecretProof::Side::kCaller)));
  if (admitted == nullptr) co_return;
  set_deadline(*admitted, Clock::now() + limits_.handshake);
  update(*admitted, admitted->is_proved() ? Result<void>() : flush(*admitted), false);
}

void Links::send(Link link, const Message& message) {
  AgentLink* const found = find(link);
  if (found == nullptr || found->is_ending()) return;
  const auto added = found->add(message);
  if (!added || !will_deliver_) return update(*found, added ? flush(*found) : added, false);
  if (written_to_ == link) return;
  send_written();
  written_to_ = link;
}

Result<void> Links::flush(AgentLink& link) const {
  return link.flush(limits_.unsent_bytes_max);
}

void Links::send_written() {
  const auto link = std::exchange(written_to_, std::nullopt);
  AgentLink* const found = link ? find(*link) : nullptr;
  if (found != nullptr && !found->is_ending()) update(*found, flush(*found), false);
}

void Links::close(Link link) {
  std::erase_if(events_, [link](const Event& event) {
    return std::visit([](const auto& it) { return it.link; }, event) == link;
  });
  if (const auto calling = calling_.find(link); calling != calling_.end()) {
    calling->second->expires_at(Clock::now());
    calling_.erase(calling);
  }
  if (AgentLink* const found = find(link); found != nullptr && !found->is_ending()) end(*found);
}

void Links::adopt(Descriptor socket, std::string_view received) {
  if (links_.size() >= limits_.connections_max) {
    if (!std::exchange(turned_away_, true)) {
      spdlog::error(
          "agents connections={}: an agent was turned away, connections_max is reached",
          links_.size());
    }
    return;
  }
  turned_away_ = false;
  last_caller_ += 2;
  AgentLink* const link = admit(std::make_unique<AgentLink>(
      Link{last_caller_}, std::move(socket), proof_of(SecretProof::Side::kCalled)));
  if (link == nullptr) return;
  set_deadline(*link, Clock::now() + limits_.handshake);
  update(*link, link->take(received, messages_), false);
}

std::optional<Endpoint> Links::address_of(Link link) {
  const AgentLink* const found = find(link);
  return found == nullptr ? std::nullopt : as_endpoint(peer_address(found->socket()));
}

std::optional<Endpoint> Links::own_address_on(Link link) {
  const AgentLink* const found = find(link);
  return found == nullptr ? std::nullopt : as_endpoint(own_end(found->socket()));
}

std::optional<SecretProof> Links::proof_of(SecretProof::Side side) const {
  constexpr std::size_t kNonceBytes = 16;
  if (!mac_) return std::nullopt;
  std::array<unsigned char, kNonceBytes> chance{};
  DDPRUN_CHECK(::getentropy(chance.data(), chance.size()) == 0);
  return SecretProof(side, mac_, fmt::format("{:02x}", fmt::join(chance, "")));
}

AgentLink* Links::find(Link link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second.get();
}

AgentLink* Links::admit(std::unique_ptr<AgentLink> link) {
  const Link id = link->link();
  link->registered = kReadable;
  const auto added =
      watch_.sockets().add(link->socket(), kReadable, static_cast<std::uint64_t>(id));
  if (!added) {
    tell(Closed{.link = id, .why = added.error()});
    return nullptr;
  }
  return links_.emplace(id, std::move(link)).first->second.get();
}

void Links::turn() {
  will_deliver_ = true;
  for (const epoll_event& event : watch_.ready()) {
    if (AgentLink* const link = find(Link{event.data.u64})) attend(*link, event.events);
    deliver();
  }
  will_deliver_ = false;
}

void Links::attend(AgentLink& link, std::uint32_t what) {
  const std::size_t unsent = link.unsent();
  auto outcome = flush(link);
  const bool progressed = link.unsent() < unsent;
  bool is_more = (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;  // the end, behind the data
  if (outcome) {
    const auto received = link.receive(buffer_.bytes(), messages_);
    if (!received) outcome = received.error();
    is_more |= received && *received;
  }
  // Reported again behind all others, as of now nobody else has been passed by.
  if (outcome && is_more) register_interest(link);
  update(link, outcome, progressed);
}

void Links::register_interest(AgentLink& link) {
  watch_.sockets().change(link.socket(), link.registered, static_cast<std::uint64_t>(link.link()));
}

void Links::update(AgentLink& link, const Result<void>& outcome, bool progressed) {
  // A refusal may come before the proof; nobody is told of a link by what came on it.
  const bool is_there = link.is_proved() || !messages_.empty();
  if (!link.was_called() && is_there && !std::exchange(link.is_announced, true)) {
    tell(Connected{.link = link.link()});
  }
  for (Message& message : messages_) {
    tell(Received{.link = link.link(), .message = std::move(message)});
  }
  messages_.clear();
  if (!outcome) return fail(link, outcome.error());
  const bool is_greeted = link.was_called() ? link.has_spoken() : link.is_announced;
  const bool is_waited_for = link.is_ending() || !is_greeted;
  if (!is_waited_for && link.unsent() == 0) {
    set_deadline(link, std::nullopt);
  } else if (!is_waited_for && (progressed || !link.deadline)) {
    set_deadline(link, Clock::now() + limits_.slow_reader);
  }
  const ReadySet::Interest interest{.readable = true, .writable = link.unsent() > 0};
  if (interest == link.registered) return;
  link.registered = interest;
  register_interest(link);
}

// The other side reads to our end and then closes, or time runs out: closing before it has read
// could take from it what was sent last.
void Links::end(AgentLink& link) {
  link.end();
  set_deadline(link, Clock::now() + limits_.linger);
  update(link, flush(link), false);
}

void Links::fail(AgentLink& link, const Error& why) {
  if (link.is_ending()) return erase(link);
  const bool is_stranger = link.was_called() && !link.has_spoken();
  // Of a call in vain nothing is said here: it may be made again and again, and who made it knows.
  const bool is_in_vain = !link.was_called() && !link.has_spoken();
  // A node that looks for its job here does so several times a second: said once for each host.
  const std::string peer = link.peer();
  const bool is_said =
      is_stranger && !refused_.is_first(peer.substr(0, peer.rfind(':')) + why.detail);
  const bool is_usual = why.is(Errc::kPeerLost) || is_in_vain || is_said;
  const auto level = is_usual ? spdlog::level::debug : spdlog::level::warn;
  spdlog::log(level, "agents peer={} closed: {}", peer, why.detail);
  if (!is_stranger) {
    const bool has_ended = why.is(Errc::kProtocol) || why.is(Errc::kPeerLost);
    tell(Closed{
        .link = link.link(),
        .why = with_context(peer, why),
        .is_foreign = is_in_vain && has_ended});
    return erase(link);
  }
  // It may be a ddprun of another version, which reads this much.
  const Refuse refusal{.job = {}, .exit_status = kExitUsage, .why = why.detail};
  const bool can_tell = why.is(Errc::kProtocol) && link.add(refusal);
  can_tell ? end(link) : erase(link);
}

void Links::erase(AgentLink& link) {
  set_deadline(link, std::nullopt);
  links_.erase(link.link());
}

void Links::set_deadline(AgentLink& link, std::optional<TimePoint> deadline) {
  watch_.set_deadline(link.link(), link.deadline, deadline);
}

void Links::on_time(TimePoint now) {
  will_deliver_ = true;
  while (const auto overdue = watch_.take_overdue(now)) {
    AgentLink& link = *links_.at(*overdue);
    fail(
        link,
        make_error(
            Errc::kTimedOut,
            link.unsent() > 0
                ? fmt::format("it has not taken {} bytes", link.unsent())
                : fmt::format("no handshake in {} s", to_seconds(limits_.handshake))));
  }
  deliver();
  will_deliver_ = false;
}

// Told later, by turn() or on_time(): whoever caused it may be in the middle of something.
void Links::tell(Event event) {
  events_.push_back(std::move(event));
  if (!will_deliver_) watch_.soon();
}

void Links::deliver() {
  do {
    while (!events_.empty()) {
      Event event = std::move(events_.front());
      events_.pop_front();
      on_event_(std::move(event));
    }
    send_written();  // which may find that the other side is gone
  } while (!events_.empty());
}

}  // namespace ddprun
