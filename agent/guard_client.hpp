#pragma once

// The agent's side of the guard: the guard holds its lifelines, and kills it when its lease is
// over. The agent must not outlive the guard.

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

  /// Once the guard has ended: does end_without_guard() for the ends that are held. Returns only
  /// when cancelled.
  asio::awaitable<void> end_with_it();

  /// Sends queued orders as fast as the guard reads them, until cancelled.
  asio::awaitable<void> serve();

  /// Holds our own lifeline until no process of this node is left, even if the agent is killed.
  /// Fails if that cannot be guaranteed; then no worker may be started under this lifeline.
  Result<void> hold_line(int line);

  /// Holds another node's lifeline while we lead: when no process of this node is left, the goodbye
  /// is sent on it. The caller keeps it open, and calls let_go() before closing it.
  void hold_end(int end);

  /// Whether the guard holds `end` for good, even if this process is killed now.
  bool holds_end(int end) const;

  /// The descriptor is closed, or about to be.
  void let_go(int descriptor);

  /// Whether workers run from now on. REQUIRES: called before the first one is started.
  void workers_run(bool run);

  /// Workers ran, here or in an agent that this one replaces (return_after_end).
  bool took_part() const { return took_part_; }

  /// If workers run at that time, the guard kills the agent and all workers; if the guard is
  /// stopped too, the kernel does. kNever: they do not.
  void allow_until(TimePoint until);

  /// Once this process has ended, the guard forks another agent, which joins as after a reboot of
  /// the machine.
  void return_after_end() { lease_->set_agent_returns(); }

  /// This process exits now with this status. If a thread of it waits in the kernel for a disk, it
  /// cannot, and the guard leaves it.
  void leave(int exit_status);

  /// A process did not end by SIGKILL: the guard need not wait for it as long again.
  void give_up() { lease_->set_gave_up(); }
  bool gave_up() const { return lease_->gave_up(); }

  /// Once this process has exited, the guard leaves its descendants alone.
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
  std::set<int> ends_;               // held for the goodbye
  std::set<int> sent_;               // of these, those that the guard got or will get
  std::vector<GuardOrder> waiting_;  // to be sent, in order
  Timer ordered_;                    // never expires; cancelled when there is something to send
};

}  // namespace ddprun
