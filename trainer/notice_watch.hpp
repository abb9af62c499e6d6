#pragma once

#include "base/descriptor.hpp"
#include "base/error.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace ddprun {

/// Receives the signals that announce the job's end (contract::is_notice) in its own thread, so
/// that none interrupts a step. Before heed() they end this process, as by default.
///
/// Not every SIGTERM is one: ddprun also sends it to end a round in which a worker failed. Then
/// nothing can be saved, and this process ends at once. The notice file distinguishes the two.
class NoticeWatch {
 public:
  /// Starts the thread. `notice_file`: DDPRUN_NOTICE_FILE; without it each such signal is a notice.
  /// REQUIRES: no other thread exists yet. Fails with kIo.
  static Result<std::unique_ptr<NoticeWatch>> begin(const std::optional<std::string>& notice_file);

  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  /// From now on there is something to save, and a notice does not end this process. Call it only
  /// after all ranks have joined: they would wait for a rank that a notice ended before.
  void heed() { heeds_.store(true, std::memory_order_relaxed); }

  /// Whether this process must save and end.
  bool has_come() const { return has_come_.load(std::memory_order_relaxed); }

 private:
  explicit NoticeWatch(Descriptor file) : file_(std::move(file)) {}

  void listen();
  bool is_confirmed() const;

  Descriptor file_;  // none: there is no notice file
  std::atomic<bool> heeds_ = false;
  std::atomic<bool> has_come_ = false;
  std::thread thread_;
};

}  // namespace ddprun
