#include "rendezvous/lifelines.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/connect.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr ReadySet::Interest kReadable{.readable = true, .writable = false};

/// What recv() yields, with the errors that are none taken away.
struct Heard {
  std::string_view bytes;
  bool is_end = false;   // an orderly end or a reset: the other side's kernel says that it is over
  bool is_lost = false;  // the connection is no more, for another reason
};

Heard hear(int socket, std::span<char> buffer) {
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) return {.bytes = {buffer.data(), static_cast<std::size_t>(got)}};
  if (got == 0 || errno == ECONNRESET) return {.bytes = {}, .is_end = true};
  return {.bytes = {}, .is_lost = errno != EAGAIN && errno != EINTR};
}

/// One byte after the hello. One that cannot be taken belongs to a node that has gone, or that has
/// not been reached for so long that enough of them wait.
bool say_byte(int socket, char byte) {
  return ::send(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/// Keeps the kernel from giving `socket` up for `unconfirmed`, though its network is gone; and for
/// ever, where nothing was said that is not confirmed.
void keep(int socket, Duration unconfirmed) {
  using std::chrono::milliseconds;
  const auto wanted_ms = std::chrono::duration_cast<milliseconds>(unconfirmed).count();
  const int off = 0;
  const int kept_ms =
      static_cast<int>(std::clamp<std::int64_t>(wanted_ms, 1, std::numeric_limits<int>::max()));
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kept_ms, sizeof(kept_ms));
}

}  // namespace

Result<std::unique_ptr<Lifelines>> Lifelines::open(asio::io_context& context, Options options) {
  auto watch = SocketWatch::open(context, ReadySet::Trigger::kLevel);
  if (!watch) return with_context("lifelines", watch.error());
  return std::unique_ptr<Lifelines>(new Lifelines(context, std::move(options), std::move(*watch)));
}

Lifelines::Lifelines(asio::io_context& context, Options options, SocketWatch watch)
    : executor_(context.get_executor()), options_(std::move(options)), watch_(std::move(watch)) {}

asio::awaitable<void> Lifelines::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  TaskScope scope(executor_);
  scope.spawn(watch_.keep_time([this](TimePoint now) { drop_overdue(now); }));
  while (co_await watch_.wait()) {
    turn();
  }
  scope.cancel();
  co_await scope.join();
}

void Lifelines::open_line(const Endpoint& leader, const Leadership& to, Incarnation node) {
  if (newest_ == std::pair(to, node)) return;
  newest_ = {to, node};
  const auto address = numeric_address(leader);
  if (!address) return spdlog::error("no lifeline to {}: no address", leader.to_string());
  auto socket = start_connect(*address);
  const Link link{++last_link_};
  Result<void> begun = socket ? Result<void>() : socket.error();
  if (begun)
    begun = watch_.sockets().add(socket->get(), {.readable = false, .writable = true}, last_link_);
  // Before it is named: an end of it that is none of this node's would be taken for our death.
  if (begun) begun = options_.holders.hold_line(socket->get());
  if (!begun) {
    return spdlog::warn("no lifeline to {}: {}", leader.to_string(), begun.error().detail);
  }
  keep(socket->get(), options_.limits.unconfirmed);
  std::string hello(opening_of(Protocol::kLifeline));
  LifelineHello named{.job = options_.job, .node = node, .leadership = to, .proof = {}};
  named.proof = line_proof(options_.mac, named);
  const auto framed = append_frame(hello, encode(named));
  DDPRUN_CHECK(framed.has_value());
  own_.emplace(
      link, OwnLine{.leadership = to, .socket = std::move(*socket), .hello = std::move(hello)});
}

std::vector<int> Lifelines::lines() const {
  std::vector<int> all;
  all.reserve(own_.size());
  for (const auto& [link, line] : own_) {
    all.push_back(line.socket.get());
  }
  return all;
}

std::vector<int> Lifelines::hold_ends(std::span<const Incarnation> successors) {
  successors = successors.first(std::min(successors.size(), std::size_t{kHeldEndsMax}));
  std::vector<int> held;
  for (auto& [link, end] : ends_) {
    if (!end.hello) continue;
    const int socket = end.socket.get();
    const bool is_chosen = std::ranges::find(successors, end.hello->node) != successors.end();
    // Said before the workers are started: each of them holds it from the fork on.
    if (is_chosen && !end.is_held && !end.is_spoiled && options_.holders.holds_end(socket)) {
      end.is_held = say_byte(socket, kHeld);
    }
    if (end.is_held) held.push_back(socket);
  }
  return held;
}

void Lifelines::probe(Incarnation node) {
  for (const auto& [link, line] : own_) {
    const bool is_open = line.hello.empty();
    if (is_open && line.leadership.leader == node) say_byte(line.socket.get(), kProbe);
  }
  for (const auto& [link, end] : ends_) {
    if (end.hello && end.hello->node == node) say_byte(end.socket.get(), kProbe);
  }
}

void Lifelines::adopt(Descriptor socket, std::string_view received) {
  const Link link{++last_link_};
  if (ends_.size() >= options_.limits.lines_max) {
    return spdlog::error("lifelines={}: one was turned away, lines_max is reached", ends_.size());
  }
  if (const auto added = watch_.sockets().add(socket.get(), kReadable, last_link_); !added) {
    return spdlog::error("a lifeline was turned away: {}", added.error().detail);
  }
  End& end = ends_[link];
  end.socket = std::move(socket);
  keep(end.socket.get(), options_.limits.unconfirmed);
  watch_.set_deadline(link, end.deadline, Clock::now() + options_.limits.handshake);
  take(link, received);
}

void Lifelines::drop_overdue(TimePoint now) {
  while (const auto overdue = watch_.take_overdue(now)) {
    drop_end(*overdue, "no hello came in time");
  }
}

void Lifelines::turn() {
  for (const epoll_event& event : watch_.ready()) {
    const Link link{event.data.u64};
    if (own_.contains(link)) {
      attend_own(link);
    } else if (ends_.contains(link)) {
      attend(link);
    }
  }
}

void Lifelines::attend_own(Link link) {
  OwnLine& line = own_.at(link);
  if (!line.hello.empty()) {
    const auto said = say_hello(line);
    if (!said) return close_own(link, said.error().detail);
    return watch_.sockets().change(line.socket.get(), kReadable, static_cast<std::uint64_t>(link));
  }
  std::array<char, 16> buffer{};
  const Heard heard = hear(line.socket.get(), buffer);
  const Leadership to = line.leadership;
  const std::size_t goodbye = heard.bytes.find(kGoodbye);
  const bool said_goodbye = goodbye != std::string_view::npos;
  line.is_held =
      line.is_held || heard.bytes.substr(0, goodbye).find(kHeld) != std::string_view::npos;
  const bool is_proof = said_goodbye || (heard.is_end && line.is_held && options_.trusts_end);
  if (heard.is_end || heard.is_lost || said_goodbye) close_own(link, "");
  if (is_proof) options_.on_event(Goodbye{.leadership = to});
}

Result<void> Lifelines::say_hello(OwnLine& line) {
  auto connected = finish_connect(line.socket.get());
  if (!connected) return connected;
  // A new connection takes so little at once.
  return send_all(line.socket.get(), std::exchange(line.hello, {}), Clock::now());
}

// The leader's side is no more, or was never reached: what holds this line proves nothing.
void Lifelines::close_own(Link link, std::string_view why) {
  const auto taken = own_.extract(link);  // closed at the end of this scope
  if (!why.empty()) spdlog::warn("no lifeline to the leader: {}", why);
  let_go(taken.mapped().socket.get());
}

// Workers hold the socket as well, and while they do our close() does not end the watch: its end
// would be reported again and again, until the last of them has saved and gone.
void Lifelines::let_go(int socket) {
  watch_.sockets().remove(socket);
  options_.holders.let_go(socket);
}

void Lifelines::attend(Link link) {
  std::array<char, 1'024> buffer{};
  const Heard heard = hear(ends_.at(link).socket.get(), buffer);
  const bool is_spoiled = ends_.at(link).is_spoiled;
  if (heard.is_end && !is_spoiled) return end_line(link);
  if (heard.is_end) return drop_end(link, "its end proves nothing");
  if (heard.is_lost) return drop_end(link, std::strerror(errno));
  if (!heard.bytes.empty()) take(link, heard.bytes);
}

void Lifelines::take(Link link, std::string_view bytes) {
  End& end = ends_.at(link);
  if (!end.hello) {
    const auto heard = hear_hello(link, end, bytes);
    if (!heard) return drop_end(link, heard.error().detail);
  }
  const bool is_strange = bytes.find_first_not_of(kProbe) != std::string_view::npos;
  if (is_strange && !end.is_spoiled) spoil(link);
}

// Whoever speaks here is no node of ours, though the job's secret be known to it.
void Lifelines::spoil(Link link) {
  End& end = ends_.at(link);
  if (!end.is_held) {
    return drop_end(link, "something was said on it, so its end would prove nothing");
  }
  end.is_spoiled = true;  // closed by us it would prove our death
}

Result<void> Lifelines::hear_hello(Link link, End& end, std::string_view& bytes) {
  const std::string_view expected = opening_of(Protocol::kLifeline);
  const std::size_t missing = expected.size() - end.opening.size();
  end.opening += bytes.substr(0, missing);
  bytes.remove_prefix(std::min(missing, bytes.size()));
  const auto whole = check_opening(end.opening);
  if (!whole) return whole.error();
  if (!*whole) return {};
  const auto body = end.frames.next(bytes);
  if (!body) return body.error();
  const std::optional<std::string_view>& frame = *body;
  if (!frame) return {};
  auto hello = decode_line(*frame);
  if (!hello) return hello.error();
  if (hello->job != options_.job) {
    return make_error(
        Errc::kProtocol, fmt::format("it is of job '{}', this is '{}'", hello->job, options_.job));
  }
  if (!are_equal(hello->proof, line_proof(options_.mac, *hello))) {
    return make_error(Errc::kProtocol, "it does not prove that it knows the job's secret");
  }
  watch_.set_deadline(link, end.deadline, std::nullopt);
  lines_of_[hello->node] += 1;
  const LifelineOpened opened{.node = hello->node, .leadership = hello->leadership};
  end.hello = std::move(*hello);
  options_.holders.hold_end(end.socket.get());
  options_.on_event(opened);
  return {};
}

void Lifelines::end_line(Link link) {
  const std::optional<LifelineHello> hello = ends_.at(link).hello;
  forget(link);
  if (!hello || lines_of_.contains(hello->node)) return;
  options_.on_event(LifelineEnded{.node = hello->node, .leadership = hello->leadership});
}

void Lifelines::drop_end(Link link, std::string_view why) {
  spdlog::warn("lifeline peer={} dropped: {}", peer_of(ends_.at(link).socket.get()), why);
  forget(link);
}

void Lifelines::forget(Link link) {
  auto const taken = ends_.extract(link);  // closed at the end of this scope
  End& end = taken.mapped();
  watch_.set_deadline(link, end.deadline, std::nullopt);
  if (!end.hello) return;
  let_go(end.socket.get());
  const auto lines = lines_of_.find(end.hello->node);
  if (--lines->second == 0) lines_of_.erase(lines);
}

}  // namespace ddprun
