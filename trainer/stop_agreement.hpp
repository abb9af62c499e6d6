#pragma once

#include "trainer/notice_watch.hpp"
#include "trainer/process_group.hpp"

#include <cstdint>
#include <optional>

namespace ddprun {

/// All ranks stop after the same step, though each hears of the notice at a time of its own. Until
/// then it costs nothing.
///
/// A rank that has heard says so in the store and trains on. When all have, rank 0 names the step
/// after its own, before it gives its gradients for it; nobody can finish that step without them,
/// so everybody finds the name there.
class StopAgreement {
 public:
  /// `notice` outlives it; null: nobody ever stops.
  StopAgreement(const NoticeWatch* notice, ProcessGroup group);

  /// Whether all ranks stop after `step`, which this one has done. Called by each rank after each
  /// step.
  bool is_reached(std::int64_t step);

  /// Whether every rank has heard, and so is going to stop. For what takes long and is no step;
  /// ranks learn of it one after the other.
  bool have_all_heard();

 private:
  const NoticeWatch* notice_;
  ProcessGroup group_;
  bool has_said_ = false;
  std::optional<std::int64_t> stop_after_;
};

}  // namespace ddprun
