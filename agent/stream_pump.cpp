#include "agent/stream_pump.hpp"

#include "agent/pump_loop.hpp"
#include "base/quiet_thread.hpp"

#include <cerrno>
#include <utility>

namespace ddprun {
namespace {

/// A line longer than this reaches the console in parts. The log has it as it was written.
constexpr std::size_t kConsoleLineBytesMax = std::size_t{64} * 1024;

}  // namespace

Result<std::unique_ptr<StreamPump>> StreamPump::create(std::shared_ptr<const Descriptor> wake) {
  auto loop = PumpLoop::create(std::move(wake));
  if (!loop) return loop.error();
  return std::unique_ptr<StreamPump>(new StreamPump(*std::move(loop)));
}

StreamPump::~StreamPump() {
  finish(Clock::now());
}

Result<void> StreamPump::add(PipedStream stream) {
  PumpRequests& requests = loop_->requests;
  if (!thread_.joinable()) {
    const auto started = start_quiet_thread(
        thread_, "cannot start a thread for the workers' output", [loop = loop_.get()] {
          loop->run();
        });
    if (!started) return started.error();
  }
  const int pipe = stream.pipe.get();
  const std::scoped_lock lock(requests.mutex);
  requests.is_served = true;
  // If it becomes readable before the thread knows it, the thread still reads it first.
  if (!loop_->watch(pipe)) return make_errno_error(errno, "cannot watch the workers' output");
  if (stream.keeps_tail) requests.tails.try_emplace(stream.worker);
  requests.arriving.emplace(
      pipe,
      PumpedStream{
          .to = std::move(stream),
          .lines = LineSplitter(kConsoleLineBytesMax),
          .show_by = {},
          .is_open = false});
  loop_->call();
  return {};
}

TailReader StreamPump::tail(const WorkerId& worker) const {
  return [loop = loop_, worker](TimePoint deadline) { return loop->tail(worker, deadline); };
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
    loop_->call();
  }
  thread_.join();
}

}  // namespace ddprun
