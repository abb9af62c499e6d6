#pragma once

// For programs of the tests whose process must need no memory from the heap, such as the guard.

namespace ddprun {

/// From now on an allocation by this process ends it by SIGABRT, after a line on stderr. A child
/// that it forks inherits that.
void forbid_allocation();

/// Ends what forbid_allocation() began.
void allow_allocation();

}  // namespace ddprun
