#pragma once

// Starts processes on a thread of its own: opening a worker's log waits for the disk of the log
// directory, and an exec for the disk of the program, and the agent's thread answers heartbeats
// meanwhile. The kernel kills the processes when that thread ends, so it lives as long as the
// agent; if it is held up by an order that was cancelled, as long as that. Its processes were those
// of an earlier round then.

#include "agent/fork_channel.hpp"
#include "agent/process.hpp"
#include "agent/worker_streams.hpp"
#include "agent/writer_thread.hpp"
#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun {

/// A process to start.
struct StartOrder {
  std::optional<StreamsOrder> streams;  // opened first, for request.out and request.err
  SpawnRequest request;
  std::vector<Descriptor> kept;  // what request.keep names
  // Forks it, if it can; also the agent's, which opened it. Null: it is executed.
  std::shared_ptr<ForkChannel> forks = nullptr;
};

/// All functions are for the agent's thread.
class WorkerStarter {
 public:
  /// Orders of which none is performed after one that failed.
  using Series = std::int64_t;
  static constexpr Series kNoSeries = 0;

  using OnDone = std::function<void(Result<Process>)>;

  /// Fails with kIo if no thread can be started, or no descriptor is left.
  static Result<std::unique_ptr<WorkerStarter>> open(asio::io_context& context);

  ~WorkerStarter();
  WorkerStarter(const WorkerStarter&) = delete;
  WorkerStarter& operator=(const WorkerStarter&) = delete;

  /// Starts the process once those ordered before it have been started. `done` gets it, after this
  /// has returned; or the error in `order`, or that of open_streams() or spawn(). If an order of
  /// its series has failed before, it is left for cancel(). Yields a number for that, > 0.
  std::int64_t begin(Series series, Result<StartOrder> order, OnDone done);

  /// Nothing is started if no process has been made yet: yields true, and `done` is never called.
  /// If the thread waits for the disk of that order, the next one is for another thread.
  bool cancel(std::int64_t order);

  /// Whether a process may be there that `done` has not been given yet.
  bool is_busy() const { return !waiting_.empty(); }

  /// Hands what has been started to those who wait for it, until cancelled.
  asio::awaitable<void> serve();

 private:
  struct Shared;

  WorkerStarter(
      asio::io_context& context,
      std::shared_ptr<Shared> shared,
      Descriptor done,
      std::unique_ptr<WriterThread> thread);

  void post(std::int64_t order);
  std::unique_ptr<WriterThread> replace_held_up_thread();

  // Two owners: a thread may be in the middle of a start that waits for a disk.
  std::shared_ptr<Shared> shared_;
  asio::posix::stream_descriptor done_;  // readable when something was started
  std::unique_ptr<WriterThread> thread_;
  std::map<std::int64_t, OnDone> waiting_;  // by order
  std::int64_t orders_ = 0;
};

}  // namespace ddprun
