#include "agent/writer_thread.hpp"

#include "base/quiet_thread.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace ddprun {

struct WriterThread::Shared {
  std::mutex mutex;  // for all below
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool busy = false;  // in the middle of a task
  bool stopping = false;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !tasks.empty() || stopping; });
      if (stopping) return;
      {
        const std::function<void()> task = std::move(tasks.front());
        tasks.pop_front();
        busy = true;
        lock.unlock();
        task();
      }  // destroys what the task owned before its end is visible
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

Result<std::unique_ptr<WriterThread>> WriterThread::start(std::string_view what) {
  auto shared = std::make_shared<Shared>();
  std::thread thread;
  if (auto const started = start_quiet_thread(thread, what, [shared] { shared->run(); });
      !started) {
    return started.error();
  }
  return std::unique_ptr<WriterThread>(new WriterThread(std::move(shared), std::move(thread)));
}

WriterThread::WriterThread(std::shared_ptr<Shared> shared, std::thread thread)
    : shared_(std::move(shared)), thread_(std::move(thread)) {}

WriterThread::~WriterThread() {
  bool stuck = false;
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stopping = true;
    stuck = shared_->busy;
  }
  shared_->changed.notify_all();
  if (stuck) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void WriterThread::post(std::function<void()> task) {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->tasks.push_back(std::move(task));
  }
  shared_->changed.notify_all();
}

bool WriterThread::flush(TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(
      lock, deadline, [this] { return shared_->tasks.empty() && !shared_->busy; });
}

}  // namespace ddprun
