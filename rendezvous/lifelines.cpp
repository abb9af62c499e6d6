#include "rendezvous/lifelines.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "rendezvous/auth.hpp"
#include "rendezvous/contain.hpp"
#include "rendezvous/core/message_json.hpp"
#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

constexpr std::size_t kHelloBytesMax = 8'192;

/// An orderly end or a reset: the peer's kernel says that it is over.
bool is_end(const boost::system::error_code& error) {
  return error == asio::error::eof || error == asio::error::connection_reset;
}

/// Keeps the kernel from giving up `socket` for `unconfirmed` after its network is gone; forever,
/// if everything that was sent is confirmed.
void keep(int socket, Duration unconfirmed) {
  using std::chrono::milliseconds;
  const auto wanted_ms = std::chrono::duration_cast<milliseconds>(unconfirmed).count();
  const int off = 0;
  const int kept_ms =
      static_cast<int>(std::clamp<std::int64_t>(wanted_ms, 1, std::numeric_limits<int>::max()));
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kept_ms, sizeof(kept_ms));
}

void report_abandoned(FramedConnection& line, bool stays_open, const std::exception& thrown) {
  spdlog::error(
      "lifeline peer={} {}: internal error: {}",
      peer_of(line.native_handle()),
      stays_open ? "is not watched any more" : "closed",
      thrown.what());
}

/// The leader's nonce for the proof on a line of our own, which begins with our opening.
asio::awaitable<Result<std::string>> nonce_on(FramedConnection& line, TimePoint deadline) {
  const auto opened = line.flush();
  if (!opened) co_return opened.error();
  for (;;) {
    const auto ready = co_await line.wait(tcp::socket::wait_read, deadline);
    if (!ready) co_return ready.error();
    std::array<char, 64> buffer{};
    const auto input = line.receive(buffer);
    if (input.error) co_return make_error(Errc::kPeerLost, input.error.message());
    std::string_view bytes = input.bytes;
    const auto frame = line.next(bytes);
    if (!frame) co_return frame.error();
    if (*frame) co_return nonce_of_line(**frame);
  }
}

}  // namespace

Lifelines::Lifelines(asio::io_context& context, Options options)
    : executor_(context.get_executor()), options_(std::move(options)), watches_(executor_) {}

asio::awaitable<void> Lifelines::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  Timer end(executor_, kNever);
  co_await end.async_wait(kTuple);
  watches_.cancel();
  co_await watches_.join();
}

void Lifelines::open_line(
    const Endpoint& leader, const Leadership& to, Incarnation node, Mac leader_mac) {
  if (newest_ == std::pair(to, node)) return;
  newest_ = {to, node};
  const auto address = numeric_address(leader);
  if (!address) return spdlog::error("no lifeline to {}: no address", leader.to_string());
  auto socket = open_socket(executor_, *address);
  Result<void> begun = socket ? Result<void>() : socket.error();
  // Before the hello names it: an end of it that this node does not hold would be taken for our
  // death.
  if (begun) begun = options_.holders.hold_line(socket->native_handle());
  if (!begun) {
    return spdlog::warn("no lifeline to {}: {}", leader.to_string(), begun.error().detail);
  }
  keep(socket->native_handle(), options_.limits.unconfirmed);
  OwnLine line{
      .connection = FramedConnection(std::move(*socket), Protocol::kLifeline),
      .hello = {.job = options_.job, .node = node, .leadership = to, .proof = {}},
      .mac = std::move(leader_mac)};
  const Link link{++last_link_};
  own_.emplace(link, std::move(line));
  watches_.spawn(contain(link, watch_own(link, *address)));
}

/// Runs `watch`, the work for `link`. What it throws ends that work alone.
asio::awaitable<void> Lifelines::contain(Link link, asio::awaitable<void> watch) {
  return ddprun::contain(
      std::move(watch), [this, link](const std::exception& thrown) { abandon(link, thrown); });
}

asio::awaitable<void> Lifelines::watch_own(Link link, Address leader) {
  co_await asio::this_coro::throw_if_cancelled(false);
  OwnLine& line = own_.at(link);
  const auto [error] = co_await line.connection.socket().async_connect(leader, kTuple);
  if (error == asio::error::operation_aborted) co_return;
  Result<void> said;
  if (error) said = make_error(Errc::kPeerLost, error.message());
  if (said) said = co_await introduce(line);
  if (!said && said.error().is(Errc::kCancelled)) co_return;
  if (!said) {
    spdlog::warn("no lifeline to the leader: {}", said.error().detail);
    co_return close_own(link);
  }
  line.is_open = true;
  for (;;) {
    const auto ready = co_await line.connection.wait(tcp::socket::wait_read);
    if (!ready) co_return;
    std::array<char, 16> buffer{};
    const auto input = line.connection.receive(buffer);
    const std::size_t goodbye = input.bytes.find(kGoodbye);
    const bool said_goodbye = goodbye != std::string_view::npos;
    line.is_held |= input.bytes.substr(0, goodbye).find(kHeld) != std::string_view::npos;
    if (!input.error && !said_goodbye) continue;
    const bool is_proof =
        said_goodbye || (is_end(input.error) && line.is_held && options_.trusts_end);
    const Leadership to = line.hello.leadership;
    close_own(link);
    if (is_proof) report(Goodbye{.leadership = to});
    co_return;
  }
}

/// Sends the hello; with a proof, once the leader has sent its nonce.
asio::awaitable<Result<void>> Lifelines::introduce(OwnLine& line) {
  FramedConnection& connection = line.connection;
  std::string nonce;
  if (line.mac) {
    auto heard = co_await nonce_on(connection, Clock::now() + options_.limits.handshake);
    if (!heard) co_return heard.error();
    nonce = *std::move(heard);
  }
  LifelineHello hello = line.hello;
  hello.proof = line_proof(line.mac, nonce, hello);
  auto sent = connection.add(encode(hello));
  if (sent) sent = connection.flush();
  if (sent && connection.unsent() > 0) {  // a new connection takes so little at once
    sent = make_error(Errc::kTimedOut, "it does not accept a hello");
  }
  co_return sent;
}

std::vector<int> Lifelines::lines() {
  std::vector<int> all;
  all.reserve(own_.size());
  for (auto& [link, line] : own_) {
    all.push_back(line.connection.native_handle());
  }
  return all;
}

std::vector<std::pair<Incarnation, std::string>> Lifelines::callers() {
  std::vector<std::pair<Incarnation, std::string>> callers;
  for (auto& [link, end] : ends_) {
    const auto from = peer_address(end.connection.native_handle());
    if (end.hello && from) callers.emplace_back(end.hello->node, host_of(*from));
  }
  return callers;
}

std::vector<int> Lifelines::hold_ends(std::span<const Incarnation> successors) {
  successors = successors.first(std::min(successors.size(), std::size_t{kHeldEndsMax}));
  std::vector<int> held;
  for (auto& [link, end] : ends_) {
    if (!end.hello) continue;
    const int socket = end.connection.native_handle();
    const bool is_chosen = std::ranges::find(successors, end.hello->node) != successors.end();
    // Sent before the workers are started: each of them holds it from the fork on.
    if (is_chosen && !end.is_held && !end.is_spoiled && options_.holders.holds_end(socket)) {
      end.is_held = end.connection.send_byte(kHeld);
    }
    if (end.is_held) held.push_back(socket);
  }
  return held;
}

// A byte that cannot be sent at once belongs to a node that has gone, or that has not been reached
// for so long that enough of them wait.
void Lifelines::probe(Incarnation node) {
  for (auto& [link, line] : own_) {
    if (line.is_open && line.hello.leadership.leader == node) line.connection.send_byte(kProbe);
  }
  for (auto& [link, end] : ends_) {
    if (end.hello && end.hello->node == node) end.connection.send_byte(kProbe);
  }
}

void Lifelines::adopt(Descriptor socket, std::string received) {
  if (!has_room()) {
    return spdlog::error("lifelines={}: one was turned away, lines_max is reached", ends_.size());
  }
  auto adopted = adopt_socket(executor_, std::move(socket));
  if (!adopted) return spdlog::error("a lifeline was turned away: {}", adopted.error().detail);
  keep(adopted->native_handle(), options_.limits.unconfirmed);
  const Link link{++last_link_};
  FramedConnection connection(std::move(*adopted), kHelloBytesMax);
  std::string nonce;
  if (options_.key.method != AuthMethod::kNone) {
    nonce = random_nonce();
    DDPRUN_CHECK(connection.add(line_challenge(nonce)).has_value());
    // A new connection takes so little at once; one that is gone is noticed below.
    static_cast<void>(connection.flush().has_value());
  }
  ends_.emplace(
      link, End{.connection = std::move(connection), .nonce = std::move(nonce), .hello = {}});
  strangers_.insert(strangers_.end(), link);
  try {
    watches_.spawn_or_throw(contain(link, watch_end(link, std::move(received))));
  } catch (const std::bad_alloc& thrown) {
    abandon(link, thrown);
  }
}

/// Whether one more may come, if need be in place of one that has said nothing for longest.
bool Lifelines::has_room() {
  const std::size_t max = options_.limits.lines_max;
  if (ends_.size() < max && strangers_.size() < strangers_within_files(max)) return true;
  if (strangers_.empty()) return false;
  End& oldest = ends_.at(*strangers_.begin());
  strangers_.erase(strangers_.begin());
  oldest.makes_way = true;
  oldest.connection.wake();  // its own coroutine removes it
  return true;
}

asio::awaitable<void> Lifelines::watch_end(Link link, std::string received) {
  co_await asio::this_coro::throw_if_cancelled(false);
  const TimePoint deadline = Clock::now() + options_.limits.handshake;
  take(link, received);
  while (ends_.contains(link)) {
    End& end = ends_.at(link);
    const auto limit = end.hello ? std::nullopt : std::optional(deadline);
    const auto ready = co_await end.connection.wait(tcp::socket::wait_read, limit);
    if (end.makes_way && !end.hello) {
      drop_end(link, "it has sent no hello, and made way for others");
    } else if (ready) {
      attend(link);
    } else if (ready.error().is(Errc::kCancelled)) {
      co_return;
    } else {
      drop_end(link, "no hello came in time");
    }
  }
}

void Lifelines::attend(Link link) {
  End& end = ends_.at(link);
  std::array<char, 1'024> buffer{};
  const auto input = end.connection.receive(buffer);
  if (is_end(input.error) && !end.is_spoiled) return end_line(link);
  if (is_end(input.error)) return drop_end(link, "its end proves nothing");
  if (input.error) return drop_end(link, input.error.message());
  take(link, input.bytes);
}

void Lifelines::take(Link link, std::string_view bytes) {
  End& end = ends_.at(link);
  if (!end.hello) {
    const auto heard = hear_hello(link, bytes);
    if (!heard) return drop_end(link, heard.error().detail);
  }
  const bool is_strange = bytes.find_first_not_of(kProbe) != std::string_view::npos;
  if (!is_strange) return;
  // No node of ours sends this, although the peer may know the job's secret.
  if (!end.is_held) {
    return drop_end(link, "something was sent on it, so its end would prove nothing");
  }
  end.is_spoiled = true;  // closed by us it would prove our death
}

Result<void> Lifelines::hear_hello(Link link, std::string_view& bytes) {
  End& end = ends_.at(link);
  const auto body = end.connection.next(bytes);
  if (!body) return body.error();
  const std::optional<std::string_view>& frame = *body;
  if (!frame) return {};
  auto hello = decode_line(*frame);
  if (!hello) return hello.error();
  if (hello->job != options_.job) {
    return make_error(
        Errc::kProtocol, fmt::format("it is of job '{}', this is '{}'", hello->job, options_.job));
  }
  if (!are_equal(hello->proof, line_proof(options_.key.mac, end.nonce, *hello))) {
    return make_error(Errc::kProtocol, "it does not prove that it is of this job");
  }
  lines_of_[hello->node] += 1;
  const LifelineOpened opened{.node = hello->node, .leadership = hello->leadership};
  end.hello = std::move(*hello);
  strangers_.erase(link);
  options_.holders.hold_end(end.connection.native_handle());
  report(opened);
  return {};
}

void Lifelines::end_line(Link link) {
  const auto last = forget(link);
  if (last) report(LifelineEnded{.node = last->node, .leadership = last->leadership});
}

void Lifelines::drop_end(Link link, std::string_view why) {
  spdlog::warn(
      "lifeline peer={} dropped: {}", peer_of(ends_.at(link).connection.native_handle()), why);
  const auto last = forget(link);
  if (last) report(LifelineDropped{.node = last->node, .leadership = last->leadership});
}

std::optional<LifelineHello> Lifelines::forget(Link link) {
  auto hello = close_end(link);
  if (!hello) return std::nullopt;
  const auto lines = lines_of_.find(hello->node);
  if (--lines->second > 0) return std::nullopt;
  lines_of_.erase(lines);
  return hello;
}

std::optional<LifelineHello> Lifelines::close_end(Link link) {
  End& end = ends_.at(link);
  if (end.hello) options_.holders.let_go(end.connection.native_handle());
  end.connection.close();
  strangers_.erase(link);
  auto hello = std::move(end.hello);
  ends_.erase(link);
  return hello;
}

// The leader's side is closed, or was never reached: what holds this line proves nothing.
void Lifelines::close_own(Link link) {
  OwnLine& line = own_.at(link);
  options_.holders.let_go(line.connection.native_handle());
  line.connection.close();
  own_.erase(link);
}

/// Gives up `link`, in the work for which `thrown` was thrown. If not even this is possible, memory
/// has run out for the whole process, which ends.
// NOLINTNEXTLINE(bugprone-exception-escape): as it should
void Lifelines::abandon(Link link, const std::exception& thrown) noexcept {
  if (own_.contains(link)) abandon_own(link, thrown);
  if (ends_.contains(link)) abandon_end(link, thrown);
}

// From then on only time shows the death of that leader.
void Lifelines::abandon_own(Link link, const std::exception& thrown) {
  OwnLine& line = own_.at(link);
  report_abandoned(line.connection, line.is_open, thrown);
  if (!line.is_open) close_own(link);
}

// It still counts in lines_of_: processes of that node may hold this line and none of the others,
// whose end then proves nothing.
void Lifelines::abandon_end(Link link, const std::exception& thrown) {
  End& end = ends_.at(link);
  report_abandoned(end.connection, end.is_held, thrown);
  std::optional<LifelineDropped> dropped;
  if (end.hello) dropped = {.node = end.hello->node, .leadership = end.hello->leadership};
  if (!end.is_held) close_end(link);
  if (dropped) report(*dropped);
}

// What on_event throws ends the process here. Caught by contain(), it would only end the watch on a
// line.
void Lifelines::report(const Event& event) noexcept {
  options_.on_event(event);
}

}  // namespace ddprun
