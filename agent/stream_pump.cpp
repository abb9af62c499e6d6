#include "agent/stream_pump.hpp"

#include "agent/core/prefix.hpp"
#include "agent/quiet_thread.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadBytes = std::size_t{256} * 1024;
/// A line longer than this reaches the console in parts. The log has it as it was written.
constexpr std::size_t kConsoleLineBytesMax = std::size_t{64} * 1024;
/// What a pipe can hold, at most, so that draining one ends though its writer does not.
constexpr std::size_t kDrainBytesMax = std::size_t{2} * 1024 * 1024;
/// How long a passed-on stream may stop in mid-line (a prompt, a progress bar) before its half line
/// is shown.
constexpr Duration kHalfLinePatience = 200ms;

Result<void> write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return make_errno_error(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

std::size_t count_lines(std::string_view lines) {
  const auto newlines = static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  return newlines + (lines.ends_with('\n') ? 0 : 1);
}

/// The two output streams may be one file, terminal or pipe (2>&1); it then has one writer.
int console_key(int descriptor) {
  struct stat out {};
  struct stat err {};
  const bool same = ::fstat(1, &out) == 0 && ::fstat(2, &err) == 0 && out.st_dev == err.st_dev &&
                    out.st_ino == err.st_ino;
  return same ? 1 : descriptor;
}

}  // namespace

Result<std::unique_ptr<StreamPump>> StreamPump::create() {
  Descriptor poller(::epoll_create1(EPOLL_CLOEXEC));
  if (!poller) return make_errno_error(errno, "cannot watch the workers' output");
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return make_errno_error(errno, "cannot watch the workers' output");
  std::unique_ptr<StreamPump> pump(new StreamPump(std::move(poller), std::move(wake)));
  if (!pump->watch(pump->wake_.get())) {
    return make_errno_error(errno, "cannot watch the workers' output");
  }
  return pump;
}

StreamPump::StreamPump(Descriptor poller, Descriptor wake)
    : poller_(std::move(poller)), wake_(std::move(wake)) {}

StreamPump::~StreamPump() {
  finish(Clock::now());
}

Result<void> StreamPump::add(PipedStream stream) {
  const int pipe = stream.pipe.get();
  const std::lock_guard lock(mutex_);
  // Should it be ready before the thread knows it, the thread looks in here first.
  if (!watch(pipe)) return make_errno_error(errno, "cannot watch the workers' output");
  if (stream.keeps_tail) tails_.try_emplace(stream.worker);
  arriving_.emplace(
      pipe, Stream{.to = std::move(stream), .lines = LineSplitter(kConsoleLineBytesMax)});
  if (!thread_.joinable()) {
    thread_ = start_quiet_thread([this] { run(); });
  }
  call();
  return {};
}

std::string StreamPump::tail(const WorkerId& worker, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  if (!tails_.contains(worker)) return {};
  if (thread_.joinable()) {
    to_drain_.insert(worker);
    call();
    drained_.wait_until(lock, deadline, [&] { return !to_drain_.contains(worker); });
  }
  return std::string(tails_[worker].text());
}

void StreamPump::forget_before(int attempt) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tails_, [attempt](const auto& tail) { return tail.first.attempt < attempt; });
}

void StreamPump::finish(TimePoint deadline) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finish_by_ = deadline;
    call();
  }
  thread_.join();
  for (const auto& [descriptor, console] : consoles_) {
    // Our own words must not wait for a console that is stuck, either.
    if (!console->flush(deadline) && descriptor != console_key(STDERR_FILENO)) {
      spdlog::warn("stdout took no more output; what is missing there is in the log files, if any");
    }
  }
}

void StreamPump::call() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));  // full means awake already
}

void StreamPump::run() {
  buffer_.resize(kReadBytes);
  std::array<epoll_event, 64> events{};
  while (serve_requests()) {
    const int count =
        ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), patience_ms());
    for (int i = 0; i < count; ++i) {
      const int ready = events[static_cast<std::size_t>(i)].data.fd;
      if (ready == wake_.get()) {
        std::uint64_t calls = 0;
        static_cast<void>(::read(ready, &calls, sizeof calls));
        resume_held_back();
        continue;
      }
      const auto stream = streams_.find(ready);
      if (stream == streams_.end() || !can_take(stream->second)) continue;
      if (read_once(stream->second) == Read::kEnded) end(stream);
    }
    if (show_by_ && Clock::now() >= *show_by_) show_unfinished_lines();
  }
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    drain(stream->second);
    stream = end(stream);
  }
}

/// Does what the agent's thread asked for. Yields false when it is time to stop.
bool StreamPump::serve_requests() {
  std::set<WorkerId> asked;
  {
    const std::lock_guard lock(mutex_);
    streams_.merge(arriving_);
    asked = to_drain_;
    finish_by_of_thread_ = finish_by_;
  }
  for (const WorkerId& worker : asked) {
    for (auto& [pipe, stream] : streams_) {
      if (stream.to.worker == worker && stream.to.keeps_tail) drain(stream);
    }
  }
  if (!asked.empty()) {
    const std::lock_guard lock(mutex_);
    for (const WorkerId& worker : asked)
      to_drain_.erase(worker);
    drained_.notify_all();
  }
  return !finish_by_of_thread_ || (!streams_.empty() && Clock::now() < *finish_by_of_thread_);
}

/// Takes what is in the pipe now. Its end is seen by the next read_once().
void StreamPump::drain(Stream& stream) {
  const std::size_t reads_max = kDrainBytesMax / kReadBytes;
  for (std::size_t reads = 0; reads < reads_max; ++reads) {
    if (!has_room_for(stream) || read_once(stream) != Read::kSome) return;
  }
}

void StreamPump::resume_held_back() {
  for (const int pipe : held_back_)
    watch(pipe);
  held_back_.clear();
}

/// A passed-on stream that stopped in mid-line is shown as it is; the next worker's line may follow
/// on the same line then, as it does when they share a descriptor.
void StreamPump::show_unfinished_lines() {
  show_by_.reset();
  for (auto& [pipe, stream] : streams_) {
    if (stream.to.use != ConsoleUse::kPassed) continue;
    stream.lines.finish([&](std::string_view lines) { show(stream, lines); });
  }
}

int StreamPump::patience_ms() const {
  if (!show_by_ && !finish_by_of_thread_) return -1;
  const TimePoint until =
      std::min(show_by_.value_or(kNever), finish_by_of_thread_.value_or(kNever));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// No if the stream must lose nothing on the console, and that is full.
bool StreamPump::has_room_for(const Stream& stream) {
  if (stream.to.use == ConsoleUse::kHidden) return true;
  Console& out = console(stream.to.console);
  const bool may_leave_out = stream.to.use == ConsoleUse::kPrefixed && !out.is_file();
  return may_leave_out || out.has_room();
}

/// Holds the stream back, and yields false, if it has to wait for the console.
bool StreamPump::can_take(const Stream& stream) {
  if (has_room_for(stream)) return true;
  // Taken off entirely: a pipe that has hung up is reported whatever one asks for.
  ::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, stream.to.pipe.get(), nullptr);
  held_back_.insert(stream.to.pipe.get());
  return false;
}

bool StreamPump::watch(int pipe) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pipe;
  return ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, pipe, &event) == 0;
}

StreamPump::Read StreamPump::read_once(Stream& stream) {
  const ssize_t got = ::read(stream.to.pipe.get(), buffer_.data(), buffer_.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Read::kNothing : Read::kEnded;
  if (got == 0) return Read::kEnded;
  take(stream, {buffer_.data(), static_cast<std::size_t>(got)});
  return Read::kSome;
}

void StreamPump::take(Stream& stream, std::string_view bytes) {
  write_log(stream, bytes);
  if (stream.to.keeps_tail) {
    const std::lock_guard lock(mutex_);
    const auto tail = tails_.find(stream.to.worker);
    if (tail != tails_.end()) tail->second.append(bytes);
  }
  if (stream.to.use == ConsoleUse::kHidden && !stream.to.filtered) return;
  stream.lines.feed(bytes, [&](std::string_view lines) { show(stream, lines); });
  const bool is_half = stream.to.use == ConsoleUse::kPassed && stream.lines.held_bytes() > 0;
  if (is_half) show_by_ = Clock::now() + kHalfLinePatience;
}

void StreamPump::write_log(Stream& stream, std::string_view bytes) {
  if (!stream.to.log) return;
  const auto written = write_all(stream.to.log.get(), bytes);
  if (written) return;
  stream.to.log.reset();
  if (std::exchange(told_of_bad_disk_, true)) return;
  spdlog::error(
      "{}: {}; this log ends here, the worker goes on (further logs that end so are not named)",
      stream.to.log_path,
      written.error().detail);
}

void StreamPump::show(Stream& stream, std::string_view lines) {
  if (stream.to.filtered) {
    batch_.clear();
    append_matching(lines, stream.to.prefix, stream.to.filters, batch_);
    if (!write_all(stream.to.filtered.get(), batch_)) stream.to.filtered.reset();
  }
  if (stream.to.use == ConsoleUse::kHidden) return;
  Console& out = console(stream.to.console);
  if (stream.to.use == ConsoleUse::kPassed) return out.append(lines);
  if (!out.has_room()) return out.skip(count_lines(lines));
  batch_.clear();
  append_prefixed(lines, stream.to.prefix, batch_);
  out.append(batch_);
}

StreamPump::StreamMap::iterator StreamPump::end(StreamMap::iterator stream) {
  stream->second.lines.finish([&](std::string_view lines) { show(stream->second, lines); });
  held_back_.erase(stream->first);
  // Closing alone would not do while a child of ours, not yet in exec, holds a copy.
  ::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, stream->first, nullptr);
  return streams_.erase(stream);
}

Console& StreamPump::console(int descriptor) {
  auto& found = consoles_[console_key(descriptor)];
  if (!found) {
    Descriptor wake(::fcntl(wake_.get(), F_DUPFD_CLOEXEC, 0));
    found = std::make_unique<Console>(descriptor, std::move(wake));
  }
  return *found;
}

}  // namespace ddprun
