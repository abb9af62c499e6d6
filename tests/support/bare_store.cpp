// bare_store WORKLOAD CLIENTS DEPTH: receives as many bytes as a request of `ddpbench store` has
// and sends as many as its reply has, from one thread with epoll, and does nothing else. No
// server can do less for that load, so this is the floor of the store's figures. Prints its
// port.

#include "bench/store_workload.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr int kEventsMax = 256;
constexpr std::size_t kBufferBytes = 131'072;

struct Connection {
  int socket = -1;
  bool opened = false;
  std::size_t received = 0;  // of the current request
};

class BareStore {
 public:
  BareStore(StoreWorkload workload, std::size_t clients, int depth)
      : fans_out_(workload == StoreWorkload::kWaitFanout),
        clients_(clients),
        opening_(opening_of(workload, 0)),
        batch_(fans_out_ ? fanout_wait(1) : batch_of(workload, 0, depth)),
        set_(fanout_set(1)),
        reply_(batch_.reply_bytes + kBufferBytes) {}

  bool listen() {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening_, name, size) != 0 || ::listen(listening_, SOMAXCONN) != 0) return false;
    if (::getsockname(listening_, name, &size) != 0) return false;
    std::printf("listening on port %d\n", ntohs(address.sin_port));
    return std::fflush(stdout) == 0;
  }

  void serve() {
    std::array<epoll_event, kEventsMax> events{};
    watch(listening_, kListening);
    for (;;) {
      const int ready = ::epoll_wait(epoll_, events.data(), kEventsMax, -1);
      for (int i = 0; i < ready; ++i) {
        const std::uint64_t token = events.at(static_cast<std::size_t>(i)).data.u64;
        if (token == kListening) {
          accept();
        } else {
          attend(token);
        }
      }
    }
  }

 private:
  static constexpr std::uint64_t kListening = ~std::uint64_t{0};

  void watch(int socket, std::uint64_t token) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = token;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
  }

  void accept() {
    const int socket = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    watch(socket, connections_.size());
    connections_.push_back({.socket = socket});
  }

  void attend(std::size_t index) {
    Connection& from = connections_[index];
    const ssize_t got = ::recv(from.socket, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) {
      ::close(from.socket);
      return;
    }
    from.received += static_cast<std::size_t>(got);
    const bool writer = fans_out_ && index == clients_;  // the last one to connect
    const StoreBatch& expected = !from.opened ? opening_ : writer ? set_ : batch_;
    if (from.received < expected.requests.size()) return;
    from.received = 0;
    if (writer && from.opened) {
      for (std::size_t i = 0; i < clients_; ++i) {
        send(connections_[i], 1);
      }
    }
    send(from, expected.reply_bytes);
    from.opened = true;
  }

  void send(const Connection& to, std::size_t bytes) const {
    if (::send(to.socket, reply_.data(), bytes, MSG_NOSIGNAL) < 0) std::perror("bare_store: send");
  }

  const bool fans_out_;
  const std::size_t clients_;
  const StoreBatch opening_;
  const StoreBatch batch_;
  const StoreBatch set_;
  const std::vector<char> reply_;
  std::vector<char> buffer_ = std::vector<char>(kBufferBytes);
  std::vector<Connection> connections_;
  int listening_ = -1;
  const int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
};

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  if (argc != 4) {
    std::fputs("usage: bare_store WORKLOAD CLIENTS DEPTH\n", stderr);
    return 2;
  }
  const auto workload = ddprun::workload_of(argv[1]);
  if (!workload) {
    std::fprintf(stderr, "bare_store: %s\n", workload.error().detail.c_str());
    return 2;
  }
  ddprun::BareStore store(
      *workload,
      std::strtoul(argv[2], nullptr, 10),
      static_cast<int>(std::strtol(argv[3], nullptr, 10)));
  if (!store.listen()) {
    std::perror("bare_store");
    return 1;
  }
  store.serve();
}
