#pragma once

#include "trainer/core/injection.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// Causes the faults of --inject in this process: real faults, not imitations.
class FaultDrill {
 public:
  /// Keeps only the injections for this rank of this attempt.
  FaultDrill(const std::vector<Injection>& injections, std::int64_t rank, std::int64_t attempt);

  /// Call it right before `step`: it may not return (kKill, kSegv, kHang), throw torch's exception
  /// for missing memory (kOom), or take some time (kSlow).
  void before(std::int64_t step) const;

  /// Whether the loss of `step` must become NaN.
  bool spoils_loss(std::int64_t step) const { return is_due_now(Fault::kNan, step); }

  /// Whether writes must fail as on a full disk from `step` on.
  bool fills_disk(std::int64_t step) const { return is_due_now(Fault::kDiskFull, step); }

 private:
  bool is_due_now(Fault fault, std::int64_t step) const;

  std::vector<Injection> injections_;
};

}  // namespace ddprun
