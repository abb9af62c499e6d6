#include "agent/console.hpp"

#include "base/log.hpp"

#include <climits>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

struct Console::Shared {
  explicit Shared(int out) : descriptor(out) {}

  const int descriptor;

  std::mutex mutex;  // for all below
  std::string pending;
  std::size_t skipped = 0;
  std::set<std::shared_ptr<const Descriptor>> want_room;  // eventfds
  bool in_mid_line = false;
  bool scheduled = false;  // the writer will write what is pending
  bool gone = false;       // the reader has gone; output is dropped
  std::size_t lost = 0;    // lines that a full disk did not take and that were not reported yet
  bool is_whole = true;    // no line was ever lost
};

namespace {

mode_t kind_of(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 ? about.st_mode & S_IFMT : 0;
}

/// How much of `lines` to pass to one write. Writes to a pipe are atomic only up to PIPE_BUF, and
/// other processes may write to the same pipe, so these are whole lines of that size if possible.
std::size_t chunk_of(std::string_view lines, bool is_pipe) {
  if (!is_pipe || lines.size() <= PIPE_BUF) return lines.size();
  const std::size_t end = lines.rfind('\n', PIPE_BUF - 1);
  return end == std::string_view::npos ? PIPE_BUF : end + 1;
}

/// Writes `lines` and removes what was written. Returns 0, or the errno that stopped it.
int write_lines(int descriptor, std::string_view& lines) {
  const bool is_pipe = kind_of(descriptor) == S_IFIFO;
  while (!lines.empty()) {
    const ssize_t written = ::write(descriptor, lines.data(), chunk_of(lines, is_pipe));
    if (written >= 0) {
      lines.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // another process that shares the terminal made it non-blocking
      pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Room may come back when files are deleted. Other errors (EPIPE, EIO) mean the reader has gone.
bool is_want_of_room(int errno_value) {
  return errno_value == ENOSPC || errno_value == EDQUOT || errno_value == EFBIG;
}

/// Writes what is pending. On the writer's thread.
template <class SharedState>
void write_pending(SharedState& shared) {
  std::string lines;
  std::unique_lock lock(shared.mutex);
  shared.scheduled = false;
  lines.swap(shared.pending);
  if (shared.skipped > 0) {  // they would have followed what was queued
    lines += fmt::format(
        "ddprun: {} lines are not shown: this console is slower than the workers; their log "
        "files have all of them\n",
        std::exchange(shared.skipped, 0));
  }
  std::string missing;
  if (shared.lost > 0) {
    missing = fmt::format(
        "\nddprun: {} lines are missing here: the disk was full; log files, if any, have them\n",
        shared.lost);
  }
  const auto waiting = std::exchange(shared.want_room, {});
  const bool gone = shared.gone;
  lock.unlock();
  for (const auto& wake : waiting) {
    static_cast<void>(::eventfd_write(wake->get(), 1));  // full means awake already
  }
  if (gone) return;
  std::string_view note = missing;
  std::string_view rest = lines;
  int why = write_lines(shared.descriptor, note);
  const bool noted = why == 0;
  if (noted) why = write_lines(shared.descriptor, rest);
  if (why == 0 && missing.empty()) return;
  lock.lock();
  if (noted) shared.lost = 0;
  if (why == 0) return;
  shared.gone = !is_want_of_room(why);
  shared.lost += static_cast<std::size_t>(std::ranges::count(rest, '\n'));
  shared.is_whole = false;
}

/// stdout and stderr may be one file, terminal or pipe (2>&1); it then has one writer.
int key_of(int descriptor) {
  struct stat out {};
  struct stat err {};
  const bool same = ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  return same ? STDOUT_FILENO : descriptor;
}

}  // namespace

Result<std::shared_ptr<Console>> Console::open(int descriptor) {
  auto writer = WriterThread::start("cannot start a thread for ddprun's output");
  if (!writer) return writer.error();
  auto shared = std::make_shared<Shared>(descriptor);
  return std::shared_ptr<Console>(
      new Console(std::move(shared), *std::move(writer), kind_of(descriptor) == S_IFREG));
}

Console::Console(std::shared_ptr<Shared> shared, std::unique_ptr<WriterThread> writer, bool is_file)
    : shared_(std::move(shared)), writer_(std::move(writer)), is_file_(is_file) {}

Console::~Console() = default;

bool Console::has_room(const std::shared_ptr<const Descriptor>& wake) {
  const std::scoped_lock lock(shared_->mutex);
  const bool room = shared_->pending.size() < kQueueBytesMax;
  if (!room) shared_->want_room.insert(wake);
  return room;
}

void Console::append(std::string_view lines) {
  const std::scoped_lock lock(shared_->mutex);
  if (lines.empty()) return;
  shared_->pending.append(lines);
  shared_->in_mid_line = !lines.ends_with('\n');
  write_soon();
}

void Console::skip(std::size_t lines) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->skipped += lines;
}

void Console::write(std::string_view lines) {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->pending.size() >= 2 * kQueueBytesMax) {  // more than the workers alone can fill
    ++shared_->skipped;
    return;
  }
  if (std::exchange(shared_->in_mid_line, false)) shared_->pending += '\n';
  shared_->pending.append(lines);
  write_soon();
}

/// REQUIRES: the mutex is held.
void Console::write_soon() {
  if (std::exchange(shared_->scheduled, true)) return;
  writer_->post([shared = shared_] { write_pending(*shared); });
}

bool Console::flush(TimePoint deadline) {
  return writer_->flush(deadline);
}

bool Console::is_whole() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->is_whole;
}

Consoles::~Consoles() {
  if (has_log_) flush(kEndPatience);
}

Result<void> Consoles::take_log() {
  auto err = of(STDERR_FILENO);
  if (!err) return err.error();
  log_to([console = *std::move(err)](std::string_view lines) { console->write(lines); });
  has_log_ = true;
  return {};
}

Result<std::shared_ptr<Console>> Consoles::of(int descriptor) {
  auto& found = consoles_[key_of(descriptor)];
  if (found) return found;
  auto opened = Console::open(descriptor);
  if (!opened) return opened.error();
  found = *std::move(opened);
  return found;
}

std::vector<int> Consoles::flush(Duration patience) {
  std::vector<int> stuck;
  for (const auto& [descriptor, console] : consoles_) {
    if (!console || (console->flush(Clock::now() + patience) && console->is_whole())) continue;
    stuck.push_back(descriptor);
    if (descriptor == STDERR_FILENO || !consoles_.contains(STDERR_FILENO)) continue;
    report("stdout did not take all output; what is missing is in the log files, if any");
  }
  if (std::exchange(has_log_, false)) log_to({});
  return stuck;
}

}  // namespace ddprun
