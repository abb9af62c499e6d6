#pragma once

// Schedules the samples of --memory-log. The agent's thread keeps the time, a separate thread takes
// the samples, so neither a slow disk nor the driver of the GPUs blocks the agent.
//
// All functions are for the agent's thread.

#include "agent/core/launch_plan.hpp"
#include "agent/writer_thread.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <string_view>

namespace ddprun {

class MemoryLog;

class MemorySampler {
 public:
  /// REQUIRES: plan.memory_log names a directory. Fails with kIo if no thread can be started.
  static Result<std::unique_ptr<MemorySampler>> start(
      asio::io_context& context, const LaunchPlan& plan, std::string_view host);

  ~MemorySampler();
  MemorySampler(const MemorySampler&) = delete;
  MemorySampler& operator=(const MemorySampler&) = delete;

  /// Takes a sample now, and one after each interval, until cancelled.
  asio::awaitable<void> run();

  /// Closes the files once a sample in progress has ended; waits at most until `deadline`.
  void finish(TimePoint deadline);

 private:
  MemorySampler(
      asio::io_context& context,
      Duration interval,
      std::shared_ptr<MemoryLog> log,
      std::unique_ptr<WriterThread> thread);

  Timer timer_;
  const Duration interval_;
  // Two owners: the thread may have to be abandoned in the middle of a sample.
  const std::shared_ptr<MemoryLog> log_;
  const std::unique_ptr<WriterThread> thread_;
};

}  // namespace ddprun
