#include "agent/stream_pump.hpp"

#include "agent/console.hpp"
#include "agent/core/prefix.hpp"
#include "base/quiet_thread.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadBytes = std::size_t{256} * 1024;
/// The capacity of a pipe at most, so that draining ends even if its writer does not stop.
constexpr std::size_t kDrainBytesMax = std::size_t{2} * 1024 * 1024;
/// How long the beginning of a line (a prompt, a row of dots) waits for the rest of the line.
constexpr Duration kHalfLinePatience = 200ms;
/// If the kernel had no memory to watch a pipe again.
constexpr Duration kResumeAgain = 100ms;
/// A line longer than this reaches the console in parts. The log has it as it was written.
constexpr std::size_t kConsoleLineBytesMax = std::size_t{64} * 1024;

constexpr char kCannotWatch[] = "cannot watch the workers' output";

std::size_t count_lines(std::string_view lines) {
  const auto newlines = static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  return newlines + (lines.ends_with('\n') ? 0 : 1);
}

}  // namespace

Result<std::shared_ptr<StreamPump>> StreamPump::create(
    std::shared_ptr<std::atomic<bool>> disk_is_reported) {
  std::shared_ptr<StreamPump> pump(new StreamPump(std::move(disk_is_reported)));
  if (!pump->poller_ || !*pump->wake_ || !pump->watch(pump->wake_->get())) {
    return make_errno_error(errno, kCannotWatch);
  }
  return pump;
}

StreamPump::StreamPump(std::shared_ptr<std::atomic<bool>> disk_is_reported)
    : poller_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(std::make_shared<const Descriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      disk_is_reported_(std::move(disk_is_reported)),
      buffer_(kReadBytes) {}

Result<void> StreamPump::add(PipedStream stream) {
  const std::scoped_lock lock(requests_.mutex);
  if (!requests_.is_served) {
    std::thread thread;
    const auto started = start_quiet_thread(
        thread, "cannot start a thread for the workers' output", [self = shared_from_this()] {
          self->run();
        });
    if (!started) return started.error();
    thread.detach();  // a write to a stuck disk may never end
    requests_.is_served = true;
  }
  const int pipe = stream.pipe.get();
  // If it becomes readable before the thread knows it, the thread still reads it first.
  if (!watch(pipe)) return make_errno_error(errno, kCannotWatch);
  if (stream.keeps_tail) requests_.tails.try_emplace(stream.worker);
  requests_.arriving.emplace(
      pipe,
      Stream{
          .to = std::move(stream),
          .lines = LineSplitter(kConsoleLineBytesMax),
          .show_by = {},
          .is_open = false});
  call();
  return {};
}

void StreamPump::expect_no_more() {
  const std::scoped_lock lock(requests_.mutex);
  requests_.no_more = true;
  call();
}

std::string StreamPump::tail(const WorkerId& worker, TimePoint deadline) {
  std::unique_lock lock(requests_.mutex);
  if (!requests_.tails.contains(worker)) return {};
  if (requests_.is_served) {
    requests_.to_drain.insert(worker);
    call();
    requests_.changed.wait_until(lock, deadline, [&] {
      return !requests_.is_served || !requests_.to_drain.contains(worker);
    });
  }
  const auto found = requests_.tails.find(worker);  // it may have been forgotten meanwhile
  return found == requests_.tails.end() ? std::string() : std::string(found->second.text());
}

void StreamPump::forget_before(int attempt) {
  const std::scoped_lock lock(requests_.mutex);
  std::erase_if(
      requests_.tails, [attempt](const auto& tail) { return tail.first.attempt < attempt; });
}

void StreamPump::finish_by(TimePoint deadline) {
  const std::scoped_lock lock(requests_.mutex);
  requests_.finish_by = deadline;
  call();
}

bool StreamPump::wait_until_finished(TimePoint deadline) {
  std::unique_lock lock(requests_.mutex);
  return requests_.changed.wait_until(lock, deadline, [this] { return !requests_.is_served; });
}

/// Adds a pipe, or `wake_`, to the descriptors that the pump's thread waits for.
bool StreamPump::watch(int pipe) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pipe;
  return ::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, pipe, &event) == 0;
}

/// Makes the pump's thread handle its requests.
void StreamPump::call() const {
  static_cast<void>(::eventfd_write(wake_->get(), 1));  // full means awake already
}

/// Until Requests::finish_by, or until every pipe has ended and no stream will arrive.
void StreamPump::run() {
  std::array<epoll_event, 64> events{};
  while (serve_requests()) {
    const int count =
        ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), patience_ms());
    for (int i = 0; i < count; ++i) {
      const int ready = events[static_cast<std::size_t>(i)].data.fd;
      if (ready != wake_->get()) {
        read_ready(ready);
        continue;
      }
      eventfd_t calls = 0;
      static_cast<void>(::eventfd_read(ready, &calls));
      resume_held_back();
    }
    if (resumes_later_) resume_held_back();
    if (!show_by_) continue;
    if (const TimePoint now = Clock::now(); now >= *show_by_) show_unfinished_lines(now);
  }
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    drain(stream->second);
    stream = end(stream);
  }
  const std::scoped_lock lock(requests_.mutex);
  requests_.is_served = false;
  requests_.changed.notify_all();
}

/// Performs the requests. Returns false when the loop is to stop.
bool StreamPump::serve_requests() {
  std::set<WorkerId> asked;
  bool no_more = false;
  {
    const std::scoped_lock lock(requests_.mutex);
    streams_.merge(requests_.arriving);
    asked = requests_.to_drain;
    finish_by_ = requests_.finish_by;
    no_more = requests_.no_more || finish_by_.has_value();
  }
  for (const WorkerId& worker : asked) {
    for (auto& [pipe, stream] : streams_) {
      if (stream.to.worker != worker) continue;
      drain(stream);
      show_rest(stream);
    }
  }
  if (!asked.empty()) {
    const std::scoped_lock lock(requests_.mutex);
    for (const WorkerId& worker : asked)
      requests_.to_drain.erase(worker);
    requests_.changed.notify_all();
  }
  return !(no_more && streams_.empty()) && Clock::now() < finish_by_.value_or(kNever);
}

void StreamPump::read_ready(int pipe) {
  const auto stream = streams_.find(pipe);
  if (stream == streams_.end() || !can_take(stream->second)) return;
  if (read_once(stream->second) == Read::kEnded) end(stream);
}

/// Reads what is in the pipe now. The next read_once() sees its end.
void StreamPump::drain(Stream& stream) {
  const std::size_t reads_max = kDrainBytesMax / kReadBytes;
  for (std::size_t reads = 0; reads < reads_max; ++reads) {
    if (!has_room_for(stream) || read_once(stream) != Read::kSome) return;
  }
}

void StreamPump::resume_held_back() {
  std::erase_if(held_back_, [this](int pipe) { return watch(pipe); });
  resumes_later_ = !held_back_.empty();
}

/// Shows a line that was not finished in time. If the stream is passed on, another worker's output
/// may then follow on the same line, as it does when workers share a descriptor.
void StreamPump::show_unfinished_lines(TimePoint now) {
  show_by_.reset();
  for (auto& [pipe, stream] : streams_) {
    if (!stream.show_by) continue;
    if (*stream.show_by <= now) {
      show_rest(stream);
    } else {
      show_by_ = std::min(show_by_.value_or(kNever), *stream.show_by);
    }
  }
}

int StreamPump::patience_ms() const {
  if (!show_by_ && !finish_by_ && !resumes_later_) return -1;
  TimePoint until = std::min(show_by_.value_or(kNever), finish_by_.value_or(kNever));
  if (resumes_later_) until = std::min(until, Clock::now() + kResumeAgain);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

/// False if the stream may lose nothing on the console, and the console is full.
bool StreamPump::has_room_for(const Stream& stream) const {
  if (stream.to.use == ConsoleUse::kHidden) return true;
  Console& out = *stream.to.console;
  const bool may_leave_out = stream.to.use == ConsoleUse::kPrefixed && !out.is_file();
  return may_leave_out || out.has_room(wake_);
}

/// Returns false, and holds the stream back, if it has to wait for the console.
bool StreamPump::can_take(const Stream& stream) {
  if (has_room_for(stream)) return true;
  // Removed entirely, because a closed pipe is reported whatever events are asked for.
  ::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, stream.to.pipe.get(), nullptr);
  held_back_.insert(stream.to.pipe.get());
  return false;
}

StreamPump::Read StreamPump::read_once(Stream& stream) {
  const std::span<char> buffer = buffer_.bytes();
  const ssize_t got = ::read(stream.to.pipe.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Read::kNothing : Read::kEnded;
  if (got == 0) return Read::kEnded;
  take(stream, {buffer.data(), static_cast<std::size_t>(got)});
  return Read::kSome;
}

void StreamPump::take(Stream& stream, std::string_view bytes) {
  write_log(stream, bytes);
  if (stream.to.keeps_tail) {
    const std::scoped_lock lock(requests_.mutex);
    const auto tail = requests_.tails.find(stream.to.worker);
    if (tail != requests_.tails.end()) tail->second.append(bytes);
  }
  if (stream.to.use == ConsoleUse::kHidden && !stream.to.filtered) return;
  bool has_shown = false;
  stream.lines.feed(bytes, [&](std::string_view lines) {
    show(stream, lines);
    has_shown = true;
  });
  hold(stream, has_shown);
}

/// Handles the rest of `stream` after its whole lines, if any (`is_new`), were shown.
void StreamPump::hold(Stream& stream, bool is_new) {
  if (is_new) stream.show_by.reset();
  if (stream.to.use == ConsoleUse::kHidden || stream.lines.held_bytes() == 0) return;
  if (stream.lines.holds_bar()) return show_rest(stream);
  if (stream.show_by) return;  // later bytes do not extend the time of earlier ones
  stream.show_by = Clock::now() + kHalfLinePatience;
  show_by_ = std::min(show_by_.value_or(kNever), *stream.show_by);
}

void StreamPump::write_log(Stream& stream, std::string_view bytes) {
  if (!stream.to.log) return;
  if (write_all(stream.to.log.get(), bytes)) return;
  const Error error = make_errno_error(errno, "write");
  stream.to.log.reset();
  if (disk_is_reported_->exchange(true)) return;
  spdlog::error(
      "{}: {}; this log ends here, the worker continues (other logs that end like this are not "
      "named)",
      stream.to.log_path,
      error.detail);
}

void StreamPump::show(Stream& stream, std::string_view lines) {
  if (stream.to.filtered) {
    batch_.clear();
    append_matching(lines, stream.to.prefix, stream.to.filters, batch_);
    if (!write_all(stream.to.filtered.get(), batch_)) stream.to.filtered.reset();
  }
  if (stream.to.use == ConsoleUse::kHidden) return;
  Console& out = *stream.to.console;
  if (stream.to.use == ConsoleUse::kPassed) return out.append(lines);
  if (!out.has_room(wake_)) return out.skip(count_lines(lines));
  batch_.clear();
  append_prefixed(lines, stream.to.prefix, batch_, stream.is_open);
  out.append(batch_);
}

void StreamPump::show_rest(Stream& stream) {
  stream.show_by.reset();
  stream.lines.finish([&](std::string_view lines) { show(stream, lines); });
}

StreamPump::StreamsByPipe::iterator StreamPump::end(StreamsByPipe::iterator stream) {
  show_rest(stream->second);
  held_back_.erase(stream->first);
  // Closing alone is not enough while a forked child that has not called exec yet holds a copy.
  ::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, stream->first, nullptr);
  return streams_.erase(stream);
}

}  // namespace ddprun
