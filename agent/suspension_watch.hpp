#pragma once

// Notices that this node was suspended while its lease ended (core/suspension.hpp): a stopped
// process, a job that Slurm suspended, a machine that slept.

#include "agent/resumption.hpp"
#include "base/deadline.hpp"
#include "base/time.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <utility>

namespace ddprun {

class SuspensionWatch {
 public:
  struct Callbacks {
    std::function<bool()> is_leader_dead;  // proved dead, not only silent
    std::function<void()> lapsed;          // the lease is over, and a suspension ended it
  };

  SuspensionWatch(asio::io_context& context, Duration lease, Callbacks callbacks)
      : context_(context),
        lease_(lease),
        callbacks_(std::move(callbacks)),
        lapse_(context, kNever) {}

  /// kNever: the lease does not end.
  void set_lease(TimePoint until) { until_ = until; }
  bool has_lease() const { return Clock::now() < until_; }

  /// What was due at `due` is done now.
  void heed_delay(TimePoint due);

  /// Whether a suspension ends, or has ended, the present lease.
  bool ends_lease();

  /// Reads each SIGCONT when it comes, until cancelled, so that an old one is not taken for a new
  /// one. Without a descriptor for that, what is there when the lease is over counts.
  asio::awaitable<void> heed_signals();
  /// Calls `lapsed`, until cancelled.
  asio::awaitable<void> await_lapse();

 private:
  void resumed();

  asio::io_context& context_;
  Duration lease_;
  Callbacks callbacks_;
  Resumption resumption_;
  TimePoint resumed_at_ = TimePoint::min();
  TimePoint until_;  // TimePoint(): there is no lease yet
  Timer lapse_;      // after a suspension: the end of the lease
};

}  // namespace ddprun
