#include "agent/console.hpp"

#include "agent/quiet_thread.hpp"

#include <climits>
#include <fmt/format.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

struct Console::Shared {
  Shared(int out, Descriptor eventfd) : descriptor(out), wake(std::move(eventfd)) {}

  const int descriptor;
  const Descriptor wake;

  std::mutex mutex;  // for all below
  std::condition_variable changed;
  std::string pending;
  std::size_t skipped = 0;
  bool wants_room = false;
  bool writing = false;
  bool gone = false;  // nobody reads it any more; what comes is dropped
  bool stopping = false;
};

namespace {

/// How much of `lines` to hand to one write. Writes to a pipe are atomic up to PIPE_BUF only, and
/// others may write to the same one, so they are whole lines of that size where possible.
std::size_t chunk_of(std::string_view lines, bool is_pipe) {
  if (!is_pipe || lines.size() <= PIPE_BUF) return lines.size();
  const std::size_t end = lines.rfind('\n', PIPE_BUF - 1);
  return end == std::string_view::npos ? PIPE_BUF : end + 1;
}

/// Writes all of `lines`. Yields false when the descriptor takes no more, ever.
bool write_lines(int descriptor, std::string_view lines, bool is_pipe) {
  while (!lines.empty()) {
    const ssize_t written = ::write(descriptor, lines.data(), chunk_of(lines, is_pipe));
    if (written >= 0) {
      lines.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // somebody we share the terminal with made it non-blocking
      pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

mode_t kind_of(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 ? about.st_mode & S_IFMT : 0;
}

template <class SharedState>
void write_until_stopped(SharedState& shared) {
  const bool is_pipe = kind_of(shared.descriptor) == S_IFIFO;
  std::string lines;
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return !shared.pending.empty() || shared.stopping; });
    if (shared.stopping) return;
    lines.clear();
    lines.swap(shared.pending);
    if (shared.skipped > 0) {  // they would have come behind what was queued
      lines += fmt::format(
          "ddprun: {} lines are not shown: this console is slower than the workers; their log "
          "files have all of them\n",
          std::exchange(shared.skipped, 0));
    }
    const bool tell = std::exchange(shared.wants_room, false);
    const bool gone = shared.gone;
    shared.writing = true;
    lock.unlock();
    if (tell) {
      const std::uint64_t one = 1;
      static_cast<void>(::write(shared.wake.get(), &one, sizeof one));  // full means awake already
    }
    const bool written = !gone && write_lines(shared.descriptor, lines, is_pipe);
    lock.lock();
    shared.writing = false;
    shared.gone = !written;
    shared.changed.notify_all();
  }
}

}  // namespace

Console::Console(int descriptor, Descriptor wake)
    : shared_(std::make_shared<Shared>(descriptor, std::move(wake))),
      is_file_(kind_of(descriptor) == S_IFREG) {
  writer_ = start_quiet_thread([shared = shared_] { write_until_stopped(*shared); });
}

Console::~Console() {
  bool stuck = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    stuck = shared_->writing;
  }
  shared_->changed.notify_all();
  if (stuck) {
    writer_.detach();
  } else {
    writer_.join();
  }
}

bool Console::has_room() {
  const std::lock_guard lock(shared_->mutex);
  const bool room = shared_->pending.size() < kQueueBytesMax;
  shared_->wants_room = !room;
  return room;
}

void Console::append(std::string_view lines) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->pending.append(lines);
  }
  shared_->changed.notify_all();
}

void Console::skip(std::size_t lines) {
  const std::lock_guard lock(shared_->mutex);
  shared_->skipped += lines;
}

bool Console::flush(TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  const auto is_done = [this] {
    return shared_->gone || (shared_->pending.empty() && !shared_->writing);
  };
  return shared_->changed.wait_until(lock, deadline, is_done);
}

}  // namespace ddprun
