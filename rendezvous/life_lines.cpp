#include "rendezvous/life_lines.hpp"

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

#include <fcntl.h>
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

/// Keeps the kernel from giving `socket` up, however long its network is gone.
void keep_for_ever(int socket) {
  const int off = 0;
  const int longest_ms = std::numeric_limits<int>::max();
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &longest_ms, sizeof(longest_ms));
}

}  // namespace

Result<std::unique_ptr<LifeLines>> LifeLines::open(asio::io_context& context, Options options) {
  auto ready = ReadySet::open(ReadySet::Trigger::kLevel);
  if (!ready) return ready.error();
  // Asio closes what it is given, so it gets a descriptor of its own for the same set.
  Descriptor any_ready(::fcntl(ready->descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!any_ready) return make_errno_error(errno, "cannot watch the life lines");
  return std::unique_ptr<LifeLines>(
      new LifeLines(context, std::move(options), std::move(*ready), std::move(any_ready)));
}

LifeLines::LifeLines(
    asio::io_context& context, Options options, ReadySet ready, Descriptor any_ready)
    : executor_(context.get_executor()),
      options_(std::move(options)),
      ready_(std::move(ready)),
      any_ready_(executor_, any_ready.release()),
      timer_(executor_, kNever) {}

asio::awaitable<void> LifeLines::serve() {
  co_await asio::this_coro::throw_if_cancelled(false);
  TaskScope scope(executor_);
  scope.spawn(keep_time());
  for (;;) {
    const auto [error] =
        co_await any_ready_.async_wait(asio::posix::descriptor_base::wait_read, kTuple);
    if (error) break;  // we were cancelled
    turn();
  }
  scope.cancel();
  co_await scope.join();
}

void LifeLines::open_line(const Endpoint& leader, std::int64_t generation, Incarnation node) {
  if (generation <= newest_) return;
  newest_ = generation;
  const auto address = numeric_address(leader);
  if (!address) return spdlog::error("no life line to {}: no address", leader.to_string());
  auto socket = start_connect(*address);
  const std::uint64_t token = ++last_token_;
  Result<void> begun = socket ? Result<void>() : socket.error();
  if (begun) begun = ready_.add(socket->get(), {.readable = false, .writable = true}, token);
  // Before it is named: an end of it that is none of this node's would be taken for our death.
  if (begun) begun = options_.holders.hold_line(socket->get());
  if (!begun) {
    return spdlog::warn("no life line to {}: {}", leader.to_string(), begun.error().detail);
  }
  keep_for_ever(socket->get());
  std::string hello(opening_of(Protocol::kLifeLine));
  LineHello named{.job = options_.job, .node = node, .generation = generation, .proof = {}};
  named.proof = line_proof(options_.mac, named);
  const auto framed = append_frame(hello, encode(named));
  DDPRUN_CHECK(framed.has_value());
  own_.emplace(
      token,
      OwnLine{.generation = generation, .socket = std::move(*socket), .hello = std::move(hello)});
}

std::vector<int> LifeLines::lines() const {
  std::vector<int> all;
  all.reserve(own_.size());
  for (const auto& [token, line] : own_) {
    all.push_back(line.socket.get());
  }
  return all;
}

void LifeLines::adopt(Descriptor socket, std::string_view received) {
  const std::uint64_t token = ++last_token_;
  if (ends_.size() >= options_.limits.lines_max) {
    return spdlog::error("life lines={}: one was turned away, lines_max is reached", ends_.size());
  }
  if (const auto added = ready_.add(socket.get(), kReadable, token); !added) {
    return spdlog::error("a life line was turned away: {}", added.error().detail);
  }
  End& end = ends_[token];
  end.socket = std::move(socket);
  end.deadline = Clock::now() + options_.limits.handshake;
  if (*end.deadline < timer_.expiry()) timer_.expires_at(*end.deadline);
  take(token, received);
}

asio::awaitable<void> LifeLines::keep_time() {
  co_await asio::this_coro::throw_if_cancelled(false);
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    const asio::cancellation_state asked = co_await asio::this_coro::cancellation_state;
    if (asked.cancelled() != asio::cancellation_type::none) co_return;
    if (re_armed) continue;
    const TimePoint now = Clock::now();
    std::vector<std::uint64_t> overdue;
    TimePoint next = kNever;
    for (const auto& [token, end] : ends_) {
      if (!end.deadline) continue;
      if (*end.deadline <= now) {
        overdue.push_back(token);
      } else {
        next = std::min(next, *end.deadline);
      }
    }
    for (const std::uint64_t token : overdue) {
      drop_end(token, "no hello came in time");
    }
    timer_.expires_at(next);
  }
}

void LifeLines::turn() {
  for (const epoll_event& event : ready_.poll(polled_)) {
    const std::uint64_t token = event.data.u64;
    if (own_.contains(token)) {
      attend_own(token);
    } else if (ends_.contains(token)) {
      attend(token);
    }
  }
}

void LifeLines::attend_own(std::uint64_t token) {
  OwnLine& line = own_.at(token);
  if (!line.hello.empty()) {
    const auto said = say_hello(line);
    if (!said) return close_own(token, said.error().detail);
    return ready_.change(line.socket.get(), kReadable, token);
  }
  std::array<char, 16> buffer{};
  const Heard heard = hear(line.socket.get(), buffer);
  const std::int64_t generation = line.generation;
  if (heard.is_end || heard.is_lost || !heard.bytes.empty()) close_own(token, "");
  if (heard.bytes.starts_with(kFarewell)) options_.on_event(Farewell{.generation = generation});
}

Result<void> LifeLines::say_hello(OwnLine& line) {
  auto connected = finish_connect(line.socket.get());
  if (!connected) return connected;
  // A new connection takes so little at once.
  return send_all(line.socket.get(), std::exchange(line.hello, {}), Clock::now());
}

// The leader's side is no more, or was never reached: what holds this line proves nothing.
void LifeLines::close_own(std::uint64_t token, std::string_view why) {
  const auto taken = own_.extract(token);  // closed at the end of this scope
  if (!why.empty()) spdlog::warn("no life line to the leader: {}", why);
  options_.holders.let_go(taken.mapped().socket.get());
}

void LifeLines::attend(std::uint64_t token) {
  std::array<char, 1'024> buffer{};
  const Heard heard = hear(ends_.at(token).socket.get(), buffer);
  if (heard.is_end) return end_line(token);
  if (heard.is_lost) return drop_end(token, std::strerror(errno));
  if (!heard.bytes.empty()) take(token, heard.bytes);
}

void LifeLines::take(std::uint64_t token, std::string_view bytes) {
  End& end = ends_.at(token);
  if (!end.hello) {
    const auto heard = hear_hello(end, bytes);
    if (!heard) return drop_end(token, heard.error().detail);
  }
  if (!bytes.empty()) drop_end(token, "something was said on it, so its end would prove nothing");
}

Result<void> LifeLines::hear_hello(End& end, std::string_view& bytes) {
  const std::string_view expected = opening_of(Protocol::kLifeLine);
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
  end.deadline.reset();
  lines_of_[hello->node] += 1;
  const LineOpened opened{.node = hello->node, .generation = hello->generation};
  end.hello = std::move(*hello);
  options_.holders.hold_end(end.socket.get());
  options_.on_event(opened);
  return {};
}

void LifeLines::end_line(std::uint64_t token) {
  const std::optional<LineHello> hello = ends_.at(token).hello;
  forget(token);
  if (!hello || lines_of_.contains(hello->node)) return;
  options_.on_event(LineEnded{.node = hello->node, .generation = hello->generation});
}

void LifeLines::drop_end(std::uint64_t token, std::string_view why) {
  spdlog::warn("life line peer={} dropped: {}", peer_of(ends_.at(token).socket.get()), why);
  forget(token);
}

void LifeLines::forget(std::uint64_t token) {
  const auto taken = ends_.extract(token);  // closed at the end of this scope
  const End& end = taken.mapped();
  if (!end.hello) return;
  options_.holders.let_go(end.socket.get());
  const auto lines = lines_of_.find(end.hello->node);
  if (--lines->second == 0) lines_of_.erase(lines);
}

}  // namespace ddprun
