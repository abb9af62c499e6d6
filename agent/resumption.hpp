#pragma once

// Whether this process was stopped and went on: SIGCONT came, as with Slurm's suspension, or
// something is done much later than it was due, as in a machine that was frozen.

#include "base/descriptor.hpp"
#include "base/time.hpp"

namespace ddprun {

class Resumption {
 public:
  /// From here on SIGCONT is blocked in this process, where it works all the same; a child inherits
  /// that. Sees no SIGCONT where the kernel refuses a descriptor.
  Resumption();

  /// Readable once SIGCONT has come, until it is asked for.
  int descriptor() const { return signals_.get(); }

  /// Whether SIGCONT has come since this was asked before.
  bool take();

  /// Whether what was due then and is done now was held up by more than a busy machine.
  static bool is_late(TimePoint due, TimePoint now);

 private:
  Descriptor signals_;
};

}  // namespace ddprun
