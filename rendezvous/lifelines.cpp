#include "rendezvous/lifelines.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
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

void Lifelines::open_line(const Endpoint& leader, const Leadership& to, Incarnation node) {
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
  LifelineHello hello{.job = options_.job, .node = node, .leadership = to, .proof = {}};
  hello.proof = line_proof(options_.mac, hello);
  OwnLine line{
      .connection = FramedConnection(std::move(*socket), Protocol::kLifeline), .leadership = to};
  DDPRUN_CHECK(line.connection.add(encode(hello)).has_value());
  const Link link{++last_link_};
  own_.emplace(link, std::move(line));
  watches_.spawn(watch_own(link, *address));
}

asio::awaitable<void> Lifelines::watch_own(Link link, Address leader) {
  co_await asio::this_coro::throw_if_cancelled(false);
  OwnLine& line = own_.at(link);
  const auto [error] = co_await line.connection.socket().async_connect(leader, kTuple);
  if (error == asio::error::operation_aborted) co_return;
  Result<void> said = line.connection.flush();
  if (error) said = make_error(Errc::kPeerLost, error.message());
  if (said && line.connection.unsent() > 0) {  // a new connection takes so little at once
    said = make_error(Errc::kTimedOut, "it does not accept a hello");
  }
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
    const Leadership to = line.leadership;
    close_own(link);
    if (is_proof) options_.on_event(Goodbye{.leadership = to});
    co_return;
  }
}

std::vector<int> Lifelines::lines() {
  std::vector<int> all;
  all.reserve(own_.size());
  for (auto& [link, line] : own_) {
    all.push_back(line.connection.native_handle());
  }
  return all;
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
    if (line.is_open && line.leadership.leader == node) line.connection.send_byte(kProbe);
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
  ends_.emplace(link, End{.connection = std::move(connection), .hello = {}});
  strangers_.insert(strangers_.end(), link);
  watches_.spawn(watch_end(link, std::move(received)));
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
  if (!are_equal(hello->proof, line_proof(options_.mac, *hello))) {
    return make_error(Errc::kProtocol, "it does not prove that it knows the job's secret");
  }
  lines_of_[hello->node] += 1;
  const LifelineOpened opened{.node = hello->node, .leadership = hello->leadership};
  end.hello = std::move(*hello);
  strangers_.erase(link);
  options_.holders.hold_end(end.connection.native_handle());
  options_.on_event(opened);
  return {};
}

void Lifelines::end_line(Link link) {
  const auto last = forget(link);
  if (last) options_.on_event(LifelineEnded{.node = last->node, .leadership = last->leadership});
}

void Lifelines::drop_end(Link link, std::string_view why) {
  spdlog::warn(
      "lifeline peer={} dropped: {}", peer_of(ends_.at(link).connection.native_handle()), why);
  const auto last = forget(link);
  if (last) options_.on_event(LifelineDropped{.node = last->node, .leadership = last->leadership});
}

std::optional<LifelineHello> Lifelines::forget(Link link) {
  End& end = ends_.at(link);
  std::optional<LifelineHello> last;
  if (end.hello) {
    options_.holders.let_go(end.connection.native_handle());
    const auto lines = lines_of_.find(end.hello->node);
    if (--lines->second == 0) {
      lines_of_.erase(lines);
      last = std::move(end.hello);
    }
  }
  end.connection.close();
  strangers_.erase(link);
  ends_.erase(link);
  return last;
}

// The leader's side is closed, or was never reached: what holds this line proves nothing.
void Lifelines::close_own(Link link) {
  OwnLine& line = own_.at(link);
  options_.holders.let_go(line.connection.native_handle());
  line.connection.close();
  own_.erase(link);
}

}  // namespace ddprun
