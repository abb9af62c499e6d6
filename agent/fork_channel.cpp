#include "agent/fork_channel.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ddprun {
namespace {

/// A fork takes milliseconds, and seconds where memory is scarce.
constexpr int kPatienceMs = 5'000;
constexpr std::size_t kAnswerBytesMax = 1'000;
constexpr std::size_t kSizeBytes = sizeof(std::uint32_t);

/// Descriptors of a worker, each with a letter for what it is to be.
struct Handed {
  std::string kinds;
  std::vector<int> descriptors;

  void add(char kind, int descriptor) {
    if (descriptor < 0) return;
    kinds += kind;
    descriptors.push_back(descriptor);
  }
};

Handed handed_by(const SpawnRequest& request) {
  Handed out;
  // The server's own stdin is the socket.
  out.add('i', request.in < 0 ? STDIN_FILENO : request.in);
  out.add('o', request.out);
  out.add('e', request.err);
  for (const int line : request.keep) {
    out.add('k', line);
  }
  return out;
}

/// Whether the socket can be read or written (`events`) in time.
bool becomes(int socket, short events) {
  pollfd awaited{.fd = socket, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&awaited, 1, kPatienceMs);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

/// Sends `bytes` or a part of them, and the descriptors. Yields how many bytes; none: it cannot be.
std::optional<std::size_t> send_some(
    int socket, std::string_view bytes, const std::vector<int>& descriptors) {
  const std::size_t size = descriptors.size() * sizeof(int);
  std::vector<unsigned char> control(size == 0 ? 0 : CMSG_SPACE(size));
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (cmsghdr* const rights = CMSG_FIRSTHDR(&message); rights != nullptr) {
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
  }
  while (becomes(socket, POLLOUT)) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) return static_cast<std::size_t>(sent);
    if (errno != EINTR && errno != EAGAIN) break;
  }
  return std::nullopt;
}

}  // namespace

std::string fork_message(const std::vector<std::string>& fields) {
  std::string message(kSizeBytes, '\0');
  for (const std::string& field : fields) {
    message.append(field.c_str(), field.size() + 1);
  }
  const auto size = static_cast<std::uint32_t>(message.size() - kSizeBytes);
  std::memcpy(message.data(), &size, kSizeBytes);
  return message;
}

void add_command(
    const std::vector<std::string>& command,
    const std::vector<std::string>& environment,
    std::vector<std::string>& fields) {
  fields.push_back(fmt::to_string(command.size()));
  fields.insert(fields.end(), command.begin(), command.end());
  fields.insert(fields.end(), environment.begin(), environment.end());
}

std::optional<Process> ForkChannel::fork(const SpawnRequest& request) {
  if (is_lost_) return std::nullopt;
  if (!send(request)) return lose("it does not read what it is asked for");
  const std::string answer = receive();
  if (answer.empty()) return lose("it does not answer");
  const auto pid = parse_int<pid_t>(answer);
  return pid && *pid > 0 ? std::optional(process_of(*pid)) : lose(answer);
}

std::optional<Process> ForkChannel::lose(std::string why) {
  why_lost_ = std::move(why);
  is_lost_ = true;
  // A worker that it makes late finds nobody, and ends.
  ::shutdown(socket_.get(), SHUT_RDWR);
  return std::nullopt;
}

bool ForkChannel::send(const SpawnRequest& request) {
  const Handed handed = handed_by(request);
  std::vector<std::string> fields = {
      fmt::to_string(::getpid()),
      handed.kinds,
      fmt::format("{}", fmt::join(request.ignored, ",")),
      fmt::format("{}", fmt::join(request.cpus, ","))};
  add_command(request.command, request.environment, fields);
  const std::string message = fork_message(fields);
  std::string_view left = message;
  auto sent = send_some(socket_.get(), left.substr(0, kSizeBytes), handed.descriptors);
  while (sent && *sent < left.size()) {
    left.remove_prefix(*sent);
    sent = send_some(socket_.get(), left, {});
  }
  return sent.has_value();
}

/// One line; empty: there is none.
std::string ForkChannel::receive() {
  std::string answer;
  while (!answer.ends_with('\n') && answer.size() < kAnswerBytesMax) {
    std::array<char, 256> part{};
    if (!becomes(socket_.get(), POLLIN)) return {};
    const ssize_t got = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return {};
    answer.append(part.data(), static_cast<std::size_t>(got));
  }
  answer.pop_back();
  return answer;
}

}  // namespace ddprun
