#pragma once

#include "trainer/notice_watch.hpp"
#include "trainer/process_group.hpp"

#include <cstdint>
#include <optional>

namespace ddprun {

/// Makes all ranks stop after the same step, though each gets the notice at a different time. Costs
/// nothing until then.
///
/// A rank that has received the notice writes this to the store and trains on. When all have, rank
/// 0 names the step after its own, before it contributes its gradients to it. No rank can finish
/// that step without them, so every rank finds the name in time.
class StopAgreement {
 public:
  /// `notice` outlives it; null: no rank ever stops.
  StopAgreement(const NoticeWatch* notice, ProcessGroup group);

  /// Whether all ranks stop after `step`, which this rank has done. Each rank calls this after each
  /// step.
  bool is_reached(std::int64_t step);

  /// Whether every rank has received the notice and will stop. For long work that is not a step;
  /// the ranks learn of it one after the other.
  bool have_all_heard();

 private:
  const NoticeWatch* notice_;
  ProcessGroup group_;
  bool has_said_ = false;
  std::optional<std::int64_t> stop_after_;
};

}  // namespace ddprun
