#pragma once

#include "trainer/core/injection.hpp"

#include <cstdint>
#include <vector>

namespace ddprun {

/// Does to this process what --inject asks for: the faults themselves, not their likeness.
class FaultDrill {
 public:
  /// Only what is for this rank of this attempt is kept.
  FaultDrill(const std::vector<Injection>& injections, std::int64_t rank, std::int64_t attempt);

  /// Right before `step` is made: may not return (kKill, kSegv, kHang), throw what torch throws
  /// where memory ends (kOom), or take a while (kSlow).
  void before(std::int64_t step) const;

  /// Whether the loss of `step` is to be no number.
  bool spoils_loss(std::int64_t step) const { return is_due_now(Fault::kNan, step); }

  /// Whether the disk is to be full from `step` on.
  bool fills_disk(std::int64_t step) const { return is_due_now(Fault::kDiskFull, step); }

 private:
  bool is_due_now(Fault fault, std::int64_t step) const;

  std::vector<Injection> injections_;
};

}  // namespace ddprun
