#pragma once

// The front, as the agent sees it: who holds its life lines, kills it when its lease is over, and
// must not die before it.

#include "agent/death_timer.hpp"
#include "agent/guard.hpp"
#include "base/deadline.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <set>
#include <vector>

namespace ddprun {

class Front {
 public:
  /// `began.front` is open.
  Front(asio::io_context& context, AgentBegins began);

  /// Once the front has ended: ends every process below this one, says farewell on the ends that
  /// are held, and ends this process. Returns only when cancelled.
  asio::awaitable<void> end_with_it();

  /// Passes on what is held and let go, as fast as the front reads it, until cancelled.
  asio::awaitable<void> serve();

  /// Our own life line, open until nothing of this node is left, though the agent be killed. Fails
  /// where that cannot be promised; then no worker may be started under this line.
  Result<void> hold_line(int line);

  /// Another node's life line, while we lead: when nothing of this node is left, a farewell is said
  /// on it. The caller keeps it open, and lets it go before closing it.
  void hold_end(int end);

  /// Whether the front holds that `end` for good, also when this process is killed in this moment.
  bool holds_end(int end) const;

  /// Either of them is closed, or about to be.
  void let_go(int descriptor);

  /// Workers run from here on, or do not any more. To be told before the first one is started.
  void workers_run(bool run);

  /// They have, here or in an agent that this one follows (return_after_end).
  bool took_part() const { return took_part_; }

  /// The front, and the kernel if the front is stopped, too, kills the agent and all workers if
  /// they run then. kNever: they do not.
  void allow_until(TimePoint until);

  /// Once this process has ended, the front forks another agent, which comes back as from a machine
  /// that was switched off.
  void return_after_end() { lease_->set_agent_returns(); }

  /// Once this process has exited, the front leaves alone what descends from it.
  void keep_leftovers() { lease_->set_keeps_leftovers(); }

 private:
  void order(GuardOrder order);
  bool send_some();
  void tell_lease();

  asio::posix::stream_descriptor channel_;
  SharedLease* lease_;
  DeathTimer death_;
  TimePoint until_ = kNever;
  bool run_ = false;
  bool took_part_ = false;
  std::set<int> ends_;               // held for a farewell
  std::set<int> sent_;               // of these, those that the front got or will get
  std::vector<GuardOrder> waiting_;  // to be sent, in order
  Timer ordered_;                    // never expires; cancelled when there is something to send
};

}  // namespace ddprun
