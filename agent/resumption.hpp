#pragma once

// Whether this process was stopped and resumed: SIGCONT arrived, as after a suspension by Slurm, or
// something is done much later than it was due, as in a machine that was frozen.

#include "base/descriptor.hpp"
#include "base/time.hpp"

namespace ddprun {

class Resumption {
 public:
  /// Blocks SIGCONT in this process, which it resumes nevertheless; children inherit that. If the
  /// kernel has no descriptor left, no SIGCONT is seen.
  Resumption();

  /// Readable once SIGCONT has arrived, until take().
  int descriptor() const { return signals_.get(); }

  /// Whether SIGCONT has arrived since the last call.
  bool take();

  /// Whether something that was due then and is done now is later than a busy machine explains.
  static bool is_late(TimePoint due, TimePoint now);

 private:
  Descriptor signals_;
};

}  // namespace ddprun
