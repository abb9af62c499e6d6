#include "bench/echo_floor.hpp"

#include "bench/process_usage.hpp"
#include "bench/server.hpp"
#include "rendezvous/blocking_socket.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/ready_set.hpp"

#include <array>
#include <cerrno>
#include <ctime>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
constexpr std::size_t kEventsMax = 256;
constexpr std::size_t kReadBytes = 65'536;
constexpr std::uint64_t kListening = ~std::uint64_t{0};

/// Answers whatever comes until it is killed.
Result<void> echo(const EchoLoad& load, const BenchServer::Listens& listens) {
  auto sockets = listen_on({.host = "127.0.0.1", .port = 0});
  if (!sockets) return sockets.error();
  auto ready = ReadySet::open(ReadySet::Trigger::kLevel);
  if (!ready) return ready.error();
  const int listening = sockets->front().get();
  auto added = ready->add(listening, {.readable = true, .writable = false}, kListening);
  if (!added) return added;
  listens(port_of(listening));
  Acceptor acceptor;
  std::vector<Descriptor> connections;
  std::vector<char> buffer(kReadBytes);
  const std::string answer(load.answer_bytes, 'a');
  std::array<epoll_event, kEventsMax> events{};
  for (;;) {
    for (const epoll_event& event : ready->poll(events, -1)) {
      if (event.data.u64 == kListening) {
        Descriptor socket;
        if (acceptor.accept(listening, socket) != Acceptor::Outcome::kAccepted) continue;
        tune_connection(socket.get());
        added = ready->add(socket.get(), {.readable = true, .writable = false}, connections.size());
        if (!added) return added;
        connections.push_back(std::move(socket));
        continue;
      }
      const int socket = connections[event.data.u64].get();
      const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got > 0) ::send(socket, answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }
}

/// Sends requests on all connections in turn, in heartbeat slots, and drops the replies.
class Requests {
 public:
  Requests(const EchoLoad& load, std::uint16_t port) : load_(load), port_(port) {}

  Result<void> connect() {
    auto ready = ReadySet::open(ReadySet::Trigger::kLevel);
    if (!ready) return ready.error();
    ready_ = *std::move(ready);
    for (int i = 0; i < load_.connections; ++i) {
      auto socket =
          BlockingSocket::connect({.host = "127.0.0.1", .port = port_}, Clock::now() + kPatience);
      if (!socket) return socket.error();
      const auto token = static_cast<std::uint64_t>(i);
      sockets_.push_back(socket->release());
      auto added = ready_.add(sockets_.back().get(), {.readable = true, .writable = false}, token);
      if (!added) return added;
    }
    return {};
  }

  Result<void> send_for(Duration time) {
    const std::string question(load_.question_bytes, 'q');
    const TimePoint begin = Clock::now();
    const Duration step = load_.interval / load_.slots;
    std::int64_t requested = 0;
    for (std::int64_t slot = 0; step * slot < time;) {
      const TimePoint now = Clock::now();
      for (; begin + step * slot <= now; ++slot) {
        for (; requested < (slot + 1) * load_.connections / load_.slots; ++requested) {
          const Descriptor& socket =
              sockets_[static_cast<std::size_t>(requested) % sockets_.size()];
          const ssize_t sent =
              ::send(socket.get(), question.data(), question.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
          if (sent < 0 && errno != EAGAIN) return make_errno_error(errno, "the floor's server");
        }
      }
      drop_answers(begin + step * slot - now);
    }
    return {};
  }

 private:
  void drop_answers(Duration wait) {
    const timespec limit{.tv_sec = wait / 1s, .tv_nsec = (wait % 1s).count()};
    pollfd any{.fd = ready_.descriptor(), .events = POLLIN, .revents = 0};
    ::ppoll(&any, 1, &limit, nullptr);
    std::array<epoll_event, kEventsMax> events{};
    for (const epoll_event& event : ready_.poll(events)) {
      const int socket = sockets_[event.data.u64].get();
      static_cast<void>(::recv(socket, nullptr, kReadBytes, MSG_DONTWAIT | MSG_TRUNC));
    }
  }

  const EchoLoad& load_;
  std::uint16_t port_;
  ReadySet ready_ = ReadySet::none();
  std::vector<Descriptor> sockets_;
};

}  // namespace

Result<Duration> measure_echo(const EchoLoad& load) {
  const auto server = BenchServer::start(
      [&load](const BenchServer::Listens& listens) { return echo(load, listens); });
  if (!server) return server.error();
  Requests requests(load, server->port());
  auto done = requests.connect();
  if (!done) return done.error();
  const auto before = cpu_time_of(server->pid());
  if (!before) return before.error();
  done = requests.send_for(load.time);
  if (!done) return done.error();
  const auto after = cpu_time_of(server->pid());
  if (!after) return after.error();
  return *after - *before;
}

}  // namespace ddprun
