#pragma once

// The fork server: a Python process that imports what the workers need while the nodes still meet,
// and forks each worker of each attempt, so that none of them imports it again (--preload). It runs
// agent/fork_server.py. If it cannot serve, for whatever reason, workers are executed, as without
// it. docs/python.md describes what a forked worker finds.
//
// Everything here runs on the main thread; the thread that starts workers uses the ForkChannel.

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/fork_channel.hpp"
#include "agent/worker_starter.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class ForkServer {
 public:
  struct Callbacks {
    std::function<void()> ready;                       // workers can be forked
    std::function<void(const std::string& why)> lost;  // from here on they are executed
  };

  /// Fails with kInvalidArgument, saying why, if the plan's workers cannot be forked; with kIo if
  /// no descriptor is left. One of the callbacks is called later, and `lost` once at most.
  static Result<std::unique_ptr<ForkServer>> open(
      asio::io_context& context, const LaunchPlan& plan, Callbacks callbacks);

  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// What starts it. `environment`: all of it. `open_files_max`: as in SpawnRequest. REQUIRES:
  /// called once.
  StartOrder order(std::vector<std::string> environment, std::uint64_t open_files_max);
  void started(const Result<pid_t>& pid);
  void ended(ProcessEnd end);

  /// Tells it what to import, and waits until that is done or has failed.
  asio::awaitable<void> await_imports();
  /// Ends that wait, until cancelled.
  asio::awaitable<void> keep_time();

  /// Workers wait for it.
  bool is_importing() const { return state_ == State::kImporting; }

  /// For the workers that are started now; null: they are executed.
  std::shared_ptr<ForkChannel> channel() const;

  /// It did not answer when a worker was to be forked: ends it.
  void heed_lost_channel();

  /// Its process, which is no worker's; none: it does not run.
  std::span<const pid_t> family() const { return {&pid_, pid_ == 0 ? 0U : 1U}; }

 private:
  enum class State : std::uint8_t { kImporting, kReady, kLost };

  struct Socket {
    Descriptor theirs;
    Descriptor answers;
    std::shared_ptr<ForkChannel> channel;
  };

  ForkServer(
      asio::io_context& context,
      const LaunchPlan& plan,
      int interpreter_options,
      Callbacks callbacks,
      Socket socket);

  asio::awaitable<std::optional<std::string>> ask();
  void lose(const std::string& why);

  const LaunchPlan& plan_;
  const int interpreter_options_;
  Callbacks callbacks_;
  Descriptor theirs_;  // until it is started
  asio::posix::stream_descriptor answers_;
  std::shared_ptr<ForkChannel> channel_;  // shared with starts on the other thread
  std::string text_;                      // the program, and what it is to import
  Timer limit_;
  State state_ = State::kImporting;
  bool is_late_ = false;
  pid_t pid_ = 0;
  std::optional<ProcessEnd> end_;  // none: it has not ended, or not been started
};

}  // namespace ddprun
