#include "agent/memory_sampler.hpp"

#include "agent/core/memory_rows.hpp"
#include "agent/memory_log.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

Result<std::unique_ptr<MemorySampler>> MemorySampler::start(
    asio::io_context& context, const LaunchPlan& plan, std::string_view host) {
  DDPRUN_CHECK(!plan.memory_log.directory.empty());
  auto thread = WriterThread::start("cannot start a thread for --memory-log");
  if (!thread) return thread.error();
  auto log = std::make_shared<MemoryLog>(plan.memory_log.wants_gpus, memory_log_paths(plan, host));
  return std::unique_ptr<MemorySampler>(
      new MemorySampler(context, plan.memory_log.interval, std::move(log), *std::move(thread)));
}

MemorySampler::MemorySampler(
    asio::io_context& context,
    Duration interval,
    std::shared_ptr<MemoryLog> log,
    std::unique_ptr<WriterThread> thread)
    : timer_(context), interval_(interval), log_(std::move(log)), thread_(std::move(thread)) {}

MemorySampler::~MemorySampler() = default;

asio::awaitable<void> MemorySampler::run() {
  TimePoint due = Clock::now();
  while (!log_->has_ended()) {
    // If the previous sample still waits for its disk, this one is skipped, not queued.
    if (thread_->flush(Clock::now())) thread_->post([log = log_] { log->sample(); });
    due = std::max(due + interval_, Clock::now());
    timer_.expires_at(due);
    const auto [cancelled] = co_await timer_.async_wait(kTuple);
    if (cancelled) co_return;
  }
}

void MemorySampler::finish(TimePoint deadline) {
  thread_->post([log = log_] { log->close(); });
  static_cast<void>(thread_->flush(deadline));  // a disk that does not respond is abandoned
}

}  // namespace ddprun
