// Echoes what it receives, from one thread with epoll: the least that a server can do per request,
// and so the floor under the store's figures. Prints its port.

#include <array>
#include <cstdio>
#include <vector>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

constexpr int kEventsMax = 256;
constexpr std::size_t kBufferBytes = 65'536;

void watch(int epoll, int socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

/// Sends back what came; false at the end of the connection.
bool echo(int socket, std::vector<char>& buffer) {
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  return ::send(socket, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
}

}  // namespace

int main() {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening, name, size) != 0 || ::listen(listening, SOMAXCONN) != 0) return 1;
  if (::getsockname(listening, name, &size) != 0) return 1;
  std::printf("listening on port %d\n", ntohs(address.sin_port));
  std::fflush(stdout);

  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, listening);
  std::vector<char> buffer(kBufferBytes);
  std::array<epoll_event, kEventsMax> events{};
  for (;;) {
    const int ready = ::epoll_wait(epoll, events.data(), kEventsMax, -1);
    for (int i = 0; i < ready; ++i) {
      const int socket = events.at(static_cast<std::size_t>(i)).data.fd;
      if (socket == listening) {
        watch(epoll, ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
      } else if (!echo(socket, buffer)) {
        ::close(socket);
      }
    }
  }
}
