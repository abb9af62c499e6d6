#pragma once

// The guard, as the agent sees it: who holds its lifelines, kills it when its lease is over, and
// must not die before it.

#include "agent/death_timer.hpp"
#include "agent/guard.hpp"
#include "base/deadline.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <set>
#include <vector>

namespace ddprun {

class GuardClient {
 public:
  /// `began.guard` is open.
  GuardClient(asio::io_context& context, AgentBegins began);

  /// Once the guard has ended: ends every process below this one, says goodbye on the ends that
  /// are held, and ends this process. Returns only when cancelled.
  asio::awaitable<void> end_with_it();

  /// Passes on what is held and let go, as fast as the guard reads it, until cancelled.
  asio::awaitable<void> serve();

  /// Our own lifeline, open until nothing of this node is left, though the agent be killed. Fails
  /// where that cannot be promised; then no worker may be started under this line.
  Result<void> hold_line(int line);

  /// Another node's lifeline, while we lead: when nothing of this node is left, a goodbye is said
  /// on it. The caller keeps it open, and lets it go before closing it.
  void hold_end(int end);

  /// Whether the guard holds that `end` for good, also when this process is killed in this moment.
  bool holds_end(int end) const;

  /// Either of them is closed, or about to be.
  void let_go(int descriptor);

  /// Workers run from here on, or do not any more. To be told before the first one is started.
  void workers_run(bool run);

  /// They have, here or in an agent that this one follows (return_after_end).
  bool took_part() const { return took_part_; }

  /// The guard, and the kernel if the guard is stopped, too, kills the agent and all workers if
  /// they run then. kNever: they do not.
  void allow_until(TimePoint until);

  /// Once this process has ended, the guard forks another agent, which comes back as from a machine
  /// that was switched off.
  void return_after_end() { lease_->set_agent_returns(); }

  /// Once this process has exited, the guard leaves alone what descends from it.
  void keep_leftovers() { lease_->set_keeps_leftovers(); }

 private:
  void order(GuardOrder order);
  bool send_some();
  void report_lease();

  asio::posix::stream_descriptor channel_;
  SharedLease* lease_;
  DeathTimer death_;
  TimePoint until_ = kNever;
  bool run_ = false;
  bool took_part_ = false;
  std::set<int> ends_;               // held for a goodbye
  std::set<int> sent_;               // of these, those that the guard got or will get
  std::vector<GuardOrder> waiting_;  // to be sent, in order
  Timer ordered_;                    // never expires; cancelled when there is something to send
};

}  // namespace ddprun
