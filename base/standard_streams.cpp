#include "base/standard_streams.hpp"

#include "base/time.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <poll.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

/// Whether descriptor 2 can take PIPE_BUF bytes without blocking, by `deadline`.
bool has_room_by(TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&room, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    // An error means that there is no reader, and a write would raise SIGPIPE.
    return ready > 0 && (room.revents & (POLLERR | POLLNVAL)) == 0;
  }
}

}  // namespace

void write_stderr(std::string_view text) noexcept {
  const TimePoint deadline = Clock::now() + kPatience;
  while (!text.empty() && has_room_by(deadline)) {
    const std::size_t part = std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t written = ::write(STDERR_FILENO, text.data(), part);
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return;
    }
  }
}

Result<void> write_stdout(std::string_view text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return {};
  return make_errno_error(errno, "cannot write to stdout");
}

}  // namespace ddprun
