#pragma once

#include "base/descriptor.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// The time in the slots: CLOCK_MONOTONIC, in nanoseconds, which stands still while the machine
/// sleeps.
std::int64_t slot_time();

/// The memory in which the workers of this node count their steps (contract::StepSlot). Each round
/// has a new one, so that a process that is left of an earlier round disturbs nothing.
class WorkerSteps {
 public:
  /// REQUIRES: workers >= 1.
  explicit WorkerSteps(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  ~WorkerSteps() { forget(); }
  WorkerSteps(const WorkerSteps&) = delete;
  WorkerSteps& operator=(const WorkerSteps&) = delete;

  /// `nodes`: of the job. `keeps_stacks`: workers may write their stacks.
  void begin_round(int nodes, bool keeps_stacks);

  /// The file for this round's workers; empty: the kernel supports no files in memory, or there are
  /// no descriptors to spare.
  const std::string& path() const { return path_; }

  /// What stands in the slots now, by local rank; empty: there is no file.
  std::vector<contract::StepSlot> slots() const;

  /// How far the workers are, for heartbeats and the status page.
  std::vector<StepReport> read() const;

  /// Where a worker writes its stacks; empty: there is no file.
  std::string stack_path(int local_rank) const;
  /// What it wrote since the last call, at most kStackBytesMax.
  std::string take_stacks(int local_rank);
  static constexpr std::size_t kStackBytesMax = std::size_t{1} << 20U;

  /// The same heartbeat, with how far they are; in a large job not in each.
  Heartbeat added_to(Heartbeat heartbeat);

 private:
  void forget();

  std::size_t workers_;
  Descriptor file_;
  contract::StepSlot* mapped_ = nullptr;
  std::string path_;
  Duration told_every_{};
  std::int64_t told_at_ = 0;        // slot_time()
  std::vector<Descriptor> stacks_;  // by local rank
};

}  // namespace ddprun
