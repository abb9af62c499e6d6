#include "agent/stream_pump.hpp"

#include "agent/pump_loop.hpp"
#include "base/quiet_thread.hpp"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

/// A line longer than this reaches the console in parts. The log has it as it was written.
constexpr std::size_t kConsoleLineBytesMax = std::size_t{64} * 1024;

}  // namespace

Result<std::unique_ptr<StreamPump>> StreamPump::create(std::shared_ptr<const Descriptor> wake) {
  auto loop = PumpLoop::create(wake);
  if (!loop) return loop.error();
  return std::unique_ptr<StreamPump>(new StreamPump(*std::move(loop), std::move(wake)));
}

StreamPump::StreamPump(std::unique_ptr<PumpLoop> loop, std::shared_ptr<const Descriptor> wake)
    : loop_(std::move(loop)), wake_(std::move(wake)) {}

StreamPump::~StreamPump() {
  finish(Clock::now());
}

Result<void> StreamPump::add(PipedStream stream) {
  if (!thread_.joinable()) {
    const auto started = start_quiet_thread(
        thread_, "cannot start a thread for the workers' output", [loop = loop_.get()] {
          loop->run();
        });
    if (!started) return started.error();
  }
  const int pipe = stream.pipe.get();
  PumpRequests& requests = loop_->requests;
  const std::scoped_lock lock(requests.mutex);
  // Should it be ready before the thread knows it, the thread looks in here first.
  if (!loop_->watch(pipe)) return make_errno_error(errno, "cannot watch the workers' output");
  if (stream.keeps_tail) requests.tails.try_emplace(stream.worker);
  requests.arriving.emplace(
      pipe,
      PumpedStream{
          .to = std::move(stream),
          .lines = LineSplitter(kConsoleLineBytesMax),
          .show_by = {},
          .is_open = false});
  call();
  return {};
}

std::string StreamPump::tail(const WorkerId& worker, TimePoint deadline) {
  PumpRequests& requests = loop_->requests;
  std::unique_lock lock(requests.mutex);
  if (!requests.tails.contains(worker)) return {};
  if (thread_.joinable()) {
    requests.to_drain.insert(worker);
    call();
    requests.drained.wait_until(
        lock, deadline, [&] { return !requests.to_drain.contains(worker); });
  }
  return std::string(requests.tails[worker].text());
}

void StreamPump::forget_before(int attempt) {
  PumpRequests& requests = loop_->requests;
  const std::scoped_lock lock(requests.mutex);
  std::erase_if(
      requests.tails, [attempt](const auto& tail) { return tail.first.attempt < attempt; });
}

void StreamPump::finish(TimePoint deadline) {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(loop_->requests.mutex);
    loop_->requests.finish_by = deadline;
    call();
  }
  thread_.join();
}

void StreamPump::call() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_->get(), &one, sizeof one));  // full means awake already
}

}  // namespace ddprun
