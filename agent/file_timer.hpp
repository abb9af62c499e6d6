#pragma once

// TORCHELASTIC_ENABLE_FILE_TIMER=1: a FIFO by which workers set timers, as under torchrun. If a
// timer expires, its process gets the signal that it asked for; its end is then a failure like any
// other. Only descendants of the agent get a signal, never the agent itself.

#include "agent/core/file_timers.hpp"
#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

class FileTimer {
 public:
  using OnExpired = std::function<void(const FileTimerRequest&)>;

  /// Creates the FIFO at `path`; empty: at a fresh path in the temporary directory. Fails with
  /// kInvalidArgument, naming the path.
  static Result<std::unique_ptr<FileTimer>> open(
      asio::io_context& context, std::string path, OnExpired on_expired);

  /// Removes the FIFO.
  ~FileTimer();
  FileTimer(const FileTimer&) = delete;
  FileTimer& operator=(const FileTimer&) = delete;

  /// For TORCHELASTIC_TIMER_FILE.
  const std::string& path() const { return path_; }

  /// Reads the requests of workers, until cancelled.
  asio::awaitable<void> serve();
  /// Calls `on_expired`, until cancelled.
  asio::awaitable<void> keep_time();

  /// A worker has ended.
  void forget(int pid) { timers_.forget(pid); }

 private:
  FileTimer(asio::io_context& context, std::string path, Descriptor fifo, OnExpired on_expired);

  void take(std::string_view line);
  void set_timer();

  std::string path_;
  asio::posix::stream_descriptor fifo_;
  OnExpired on_expired_;
  FileTimers timers_;
  Timer timer_;
};

}  // namespace ddprun
