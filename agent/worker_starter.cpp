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

constexpr char kCannotStart[] = "cannot start a thread that starts workers";

/// One order, on its way through the thread.
struct Start {
  enum class State : std::uint8_t { kWaiting, kCancelled, kMakingProcess };

  Start(WorkerStarter::Series part_of, Result<StartOrder> what)
      : series(part_of), order(std::move(what)) {}

  const WorkerStarter::Series series;
  std::mutex mutex;  // for all below
  State state = State::kWaiting;
  Result<StartOrder> order;  // the thread's alone once it makes the process

  /// Lets go of what the order keeps open.
  bool cancel() {
    const std::scoped_lock lock(mutex);
    if (state != State::kWaiting) return false;
    state = State::kCancelled;
    order = StartOrder{};
    return true;
  }

  std::optional<StreamsOrder> take_streams() {
    const std::scoped_lock lock(mutex);
    return order ? std::exchange(order->streams, std::nullopt) : std::nullopt;
  }

  bool may_make_process() {
    const std::scoped_lock lock(mutex);
    if (state == State::kCancelled) return false;
    state = State::kMakingProcess;
    return true;
  }
};

Result<Process> make_process(const StartOrder& order) {
  auto forked = order.forks ? order.forks->fork(order.request) : std::nullopt;
  return forked ? Result<Process>(*std::move(forked)) : spawn(order.request);
}

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
  if (!start.order) return Result<Process>(start.order.error());
  SpawnRequest& request = start.order->request;
  if (streams.out) request.out = streams.out.get();
  if (streams.err) request.err = streams.err.get();
  auto process = make_process(*start.order);
  start.order = StartOrder{};  // a lifeline must not stay open here
  return process;
}

}  // namespace

struct WorkerStarter::Shared {
  Descriptor done;  // an eventfd

  std::mutex mutex;                                       // for all below
  std::map<std::int64_t, std::shared_ptr<Start>> starts;  // neither done nor cancelled
  std::map<std::int64_t, Result<Process>> started;
  int thread = 0;              // the number of the newest one
  std::int64_t performed = 0;  // the order that it is in the middle of; 0: none
  Series failed = kNoSeries;   // the newest

  /// For the thread of that number, which does nothing once there is a newer one.
  void run(std::int64_t order, int by) {
    const auto start = take(order, by);
    if (!start) return;
    auto process = perform(*start);
    const std::scoped_lock lock(mutex);
    starts.erase(order);
    if (thread == by) performed = 0;
    if (!process) return;
    if (!*process) failed = start->series;
    started.emplace(order, *std::move(process));
    static_cast<void>(::eventfd_write(done.get(), 1));  // full means readable already
  }

  /// Null: it is not to be performed.
  std::shared_ptr<Start> take(std::int64_t order, int by) {
    const std::scoped_lock lock(mutex);
    const auto start = starts.find(order);
    if (thread != by || start == starts.end()) return nullptr;
    const Series series = start->second->series;
    if (series != kNoSeries && series == failed) return nullptr;
    performed = order;
    return start->second;
  }

  bool is_held_up() const { return performed != 0 && !starts.contains(performed); }
};

Result<std::unique_ptr<WorkerStarter>> WorkerStarter::open(asio::io_context& context) {
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

std::int64_t WorkerStarter::begin(Series series, Result<StartOrder> order, OnDone done) {
  const std::int64_t number = ++orders_;
  auto start = std::make_shared<Start>(series, std::move(order));
  waiting_.emplace(number, std::move(done));
  const auto held_up = replace_held_up_thread();  // left to itself, without the lock
  const std::scoped_lock lock(shared_->mutex);
  shared_->starts.emplace(number, std::move(start));
  post(number);
  return number;
}

void WorkerStarter::post(std::int64_t order) {
  thread_->post([shared = shared_, order, by = shared_->thread] { shared->run(order, by); });
}

/// Yields the thread that is replaced; null: it is not held up, or there is no other one.
std::unique_ptr<WriterThread> WorkerStarter::replace_held_up_thread() {
  const std::scoped_lock lock(shared_->mutex);
  if (!shared_->is_held_up()) return nullptr;
  auto fresh = WriterThread::start(kCannotStart);
  if (!fresh) return nullptr;
  auto held_up = std::exchange(thread_, *std::move(fresh));
  ++shared_->thread;
  shared_->performed = 0;
  for (const auto& [order, start] : shared_->starts) {
    post(order);
  }
  return held_up;
}

bool WorkerStarter::cancel(std::int64_t order) {
  {
    const std::scoped_lock lock(shared_->mutex);
    const auto start = shared_->starts.find(order);
    if (start == shared_->starts.end() || !start->second->cancel()) return false;
    shared_->starts.erase(start);
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
