#pragma once

// StepMeter: how far the workers of this node are, by what they write to their slots. Nothing that
// stands there is trusted: a worker may write anything.

#include "base/worker_contract.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

class StepMeter {
 public:
  /// The slots are new, one for each worker.
  void begin_round() { since_.clear(); }

  /// Of each worker that has made a step, or announced a pause. `slots` are by local rank, `now_ns`
  /// is CLOCK_MONOTONIC. A step time is a mean over a second, or over one step if that is longer.
  std::vector<StepReport> read(std::span<const contract::StepSlot> slots, std::int64_t now_ns);

 private:
  /// What the step time is measured from.
  struct Mark {
    std::int64_t step = 0;
    std::int64_t at = 0;   // 0: there is none
    Duration step_time{};  // up to here
  };

  std::vector<Mark> since_;  // by local rank
};

}  // namespace ddprun
