#pragma once

#include "base/time.hpp"
#include "base/worker_contract.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun {

/// Tells the agent how far this worker is, in the memory that DDPRUN_STEP_FILE names: for
/// `ddpctl status`, and so that a hang is noticed. Takes no lock and makes no system call.
///
/// Without such a file, all of it does nothing: a worker needs no launcher.
class StepCounter {
 public:
  /// Claims the slot that the environment names. REQUIRES: no other thread changes the environment.
  static StepCounter open();

  StepCounter() = default;
  ~StepCounter();
  StepCounter(StepCounter&& other) noexcept;
  StepCounter& operator=(StepCounter&& other) noexcept;
  StepCounter(const StepCounter&) = delete;
  StepCounter& operator=(const StepCounter&) = delete;

  /// This worker has made step number `step`, >= 0.
  void count(std::int64_t step);

  /// An announced pause: until this object ends, at most for as long as announced, no step is
  /// expected of this worker.
  class Pause {
   public:
    explicit Pause(contract::StepSlot* slot) : slot_(slot) {}
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    contract::StepSlot* slot_;  // null: there is none
  };

  /// `what`: "evaluating", of which 63 bytes are shown.
  [[nodiscard]] Pause busy(std::string_view what, Duration longest);

 private:
  static constexpr int kWindow = 64;  // steps
  static constexpr int kMeanOver = 8;

  StepCounter(void* mapped, std::size_t size, contract::StepSlot* slot)
      : mapped_(mapped), size_(size), slot_(slot) {}

  void* mapped_ = nullptr;
  std::size_t size_ = 0;
  contract::StepSlot* slot_ = nullptr;  // null: there is none
  std::int64_t longest_ = 0;            // between two steps of this window
  std::int64_t longest_before_ = 0;     // and of the one before
  int left_ = kWindow;                  // steps of this window
};

}  // namespace ddprun
