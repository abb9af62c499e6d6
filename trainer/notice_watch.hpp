#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace ddprun {

/// Hears the signals that announce the job's end (contract::is_notice) in a thread of its own, so
/// that none interrupts a step. Until heed() they end this process, as if nobody heard them.
///
/// Not every SIGTERM is one: ddprun also ends a round with it in which a worker has failed, and
/// then nothing can be saved and this process ends at once. The notice file tells them apart.
class NoticeWatch {
 public:
  /// Begins. `notice_file`: DDPRUN_NOTICE_FILE; without one each such signal is a notice.
  /// REQUIRES: no other thread exists yet. Fails with kIo.
  static Result<std::unique_ptr<NoticeWatch>> begin(const std::optional<std::string>& notice_file);

  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  /// There is something to save: from now on a notice does not end this process. Not to be called
  /// before all ranks have met: one that a notice ended on its way would be waited for.
  void heed() { heeds_.store(true, std::memory_order_relaxed); }

  /// This process is to save and to end.
  bool has_come() const { return has_come_.load(std::memory_order_relaxed); }

 private:
  explicit NoticeWatch(Descriptor file) : file_(std::move(file)) {}

  void listen();
  bool is_confirmed() const;

  Descriptor file_;  // none: there is no such file
  std::atomic<bool> heeds_ = false;
  std::atomic<bool> has_come_ = false;
  std::thread thread_;
};

}  // namespace ddprun
