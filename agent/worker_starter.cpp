#include "agent/worker_starter.hpp"

#include "rendezvous/stream_of.hpp"

#include <cerrno>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>

namespace ddprun {
namespace {

using Stream = asio::posix::stream_descriptor;

/// One order, on its way through the thread.
struct Start {
  enum class State : std::uint8_t { kWaiting, kCancelled, kMakingProcess };

  std::mutex mutex;  // for all below
  State state = State::kWaiting;
  StartOrder order;  // the thread's alone once it makes the process

  /// Lets go of what the order keeps open.
  bool cancel() {
    const std::scoped_lock lock(mutex);
    if (state != State::kWaiting) return false;
    state = State::kCancelled;
    order = {};
    return true;
  }

  std::optional<StreamsOrder> take_streams() {
    const std::scoped_lock lock(mutex);
    return std::exchange(order.streams, std::nullopt);
  }

  bool may_make_process() {
    const std::scoped_lock lock(mutex);
    if (state == State::kCancelled) return false;
    state = State::kMakingProcess;
    return true;
  }
};

/// None if it was cancelled.
std::optional<Result<Process>> perform(Start& start) {
  WorkerStreams streams;
  if (auto order = start.take_streams()) {
    auto opened = open_streams(*std::move(order));
    if (!start.may_make_process()) return std::nullopt;
    if (!opened) return Result<Process>(opened.error());
    streams = *std::move(opened);
  } else if (!start.may_make_process()) {
    return std::nullopt;
  }
  SpawnRequest& request = start.order.request;
  if (streams.out) request.out = streams.out.get();
  if (streams.err) request.err = streams.err.get();
  auto process = spawn(request);
  start.order = {};  // a lifeline must not stay open here
  return process;
}

}  // namespace

struct WorkerStarter::Shared {
  Descriptor done;  // an eventfd

  std::mutex mutex;  // for all below
  std::map<std::int64_t, std::shared_ptr<Start>> starts;
  std::map<std::int64_t, Result<Process>> started;

  void run(std::int64_t order, Start& start) {
    auto process = perform(start);
    const std::scoped_lock lock(mutex);
    starts.erase(order);
    if (!process) return;
    started.emplace(order, *std::move(process));
    static_cast<void>(::eventfd_write(done.get(), 1));  // full means readable already
  }
};

Result<std::unique_ptr<WorkerStarter>> WorkerStarter::open(asio::io_context& context) {
  constexpr char kCannotStart[] = "cannot start a thread that starts workers";
  auto shared = std::make_shared<Shared>();
  shared->done = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->done) return make_errno_error(errno, kCannotStart);
  // A duplicate, since Asio closes what it is given, and the thread may outlive us.
  Descriptor copy(::fcntl(shared->done.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return make_errno_error(errno, kCannotStart);
  auto thread = WriterThread::start(kCannotStart);
  if (!thread) return thread.error();
  return std::unique_ptr<WorkerStarter>(
      new WorkerStarter(context, std::move(shared), std::move(copy), *std::move(thread)));
}

WorkerStarter::WorkerStarter(
    asio::io_context& context,
    std::shared_ptr<Shared> shared,
    Descriptor done,
    std::unique_ptr<WriterThread> thread)
    : shared_(std::move(shared)),
      done_(stream_of(context, std::move(done))),
      thread_(std::move(thread)) {}

WorkerStarter::~WorkerStarter() = default;

std::int64_t WorkerStarter::begin(StartOrder order, OnDone done) {
  const std::int64_t number = ++orders_;
  auto start = std::make_shared<Start>();
  start->order = std::move(order);
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->starts.emplace(number, start);
  }
  waiting_.emplace(number, std::move(done));
  thread_->post([shared = shared_, number, start] { shared->run(number, *start); });
  return number;
}

bool WorkerStarter::cancel(std::int64_t order) {
  {
    const std::scoped_lock lock(shared_->mutex);
    const auto start = shared_->starts.find(order);
    if (start == shared_->starts.end() || !start->second->cancel()) return false;
  }
  waiting_.erase(order);
  return true;
}

asio::awaitable<void> WorkerStarter::serve() {
  for (;;) {
    const auto [error] = co_await done_.async_wait(Stream::wait_read, kTuple);
    if (error) continue;
    eventfd_t count = 0;
    static_cast<void>(::eventfd_read(done_.native_handle(), &count));
    for (;;) {
      std::unique_lock lock(shared_->mutex);
      if (shared_->started.empty()) break;
      const auto next = shared_->started.extract(shared_->started.begin());
      lock.unlock();
      const OnDone done = std::move(waiting_.extract(next.key()).mapped());
      done(std::move(next.mapped()));
    }
  }
}

}  // namespace ddprun
