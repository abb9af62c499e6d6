#pragma once

// What the agent tells its guard: which lifelines to hold, and how long processes may run here.
// docs/connections.md explains what a lifeline proves.
//
// Descriptors go through a socket pair created before the fork. The lease is in shared memory, so
// the guard can read it while the agent is stopped. Without Asio, because the guard uses this.

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/lifeline_hello.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ddprun {

/// State that guard and agent share in memory: until when processes of the job may run on this
/// node, and whether the guard holds the lifelines that it was given.
class SharedLease {
 public:
  /// For the guard and the agent of one launch; never freed. Fails with kIo.
  static Result<SharedLease*> create();

  /// kNever: without limit.
  void set(TimePoint until) { until_ns_.store(until.time_since_epoch().count()); }
  TimePoint get() const { return TimePoint(Duration(until_ns_.load())); }

  /// Workers have been started under it.
  void set_took_part() { took_part_.store(true); }
  bool took_part() const { return took_part_.load(); }

  /// The guard could not take a lifeline that it was to hold: it has no descriptor left.
  void set_guard_is_full() { guard_is_full_.store(true); }
  bool guard_is_full() const { return guard_is_full_.load(); }

  /// The agent ends because it lost its lease in a suspension; another one is to take its place.
  void set_agent_returns() { agent_returns_.store(true); }
  bool agent_returns() const { return agent_returns_.load(); }

  /// The agent has done its work and exits with this status, >= 0; none: not yet.
  void set_exit_status(int status) { exit_status_.store(status); }
  std::optional<int> exit_status() const {
    const int status = exit_status_.load();
    return status < 0 ? std::nullopt : std::optional(status);
  }

  /// The agent has waited for the end of processes to which it has sent SIGKILL, in vain.
  void set_gave_up() { gave_up_.store(true); }
  bool gave_up() const { return gave_up_.load(); }

  /// The agent ends with success, and leftovers of its workers live on (--leftover keep).
  void set_keeps_leftovers() { keeps_leftovers_.store(true); }
  bool keeps_leftovers() const { return keeps_leftovers_.load(); }

 private:
  SharedLease() { set(kNever); }

  std::atomic<std::int64_t> until_ns_;
  std::atomic<bool> took_part_ = false;
  std::atomic<bool> guard_is_full_ = false;
  std::atomic<bool> agent_returns_ = false;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> keeps_leftovers_ = false;
  std::atomic<int> exit_status_ = -1;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // a lock would end at the fork
};

/// One order of the agent.
struct GuardOrder {
  enum class Kind : std::int32_t {
    kHoldLine,        // our own lifeline: hold it until no process of this node is left
    kHoldEnd,         // another node's, while we lead: hold it, and send the goodbye on it
    kLetGo,           // release either of them
    kLeaseShortened,  // the lease ends earlier than before
  };
  Kind kind = Kind::kLeaseShortened;
  int descriptor = -1;  // its number in the agent, which identifies it while it is held
};

/// How many fit into one message: the kernel takes 253 descriptors.
inline constexpr std::size_t kGuardOrdersMax = 128;

/// Orders as the guard receives them.
struct GuardOrders {
  std::size_t count = 0;
  std::array<GuardOrder, kGuardOrdersMax> orders;
  std::array<Descriptor, kGuardOrdersMax> copies;  // by order; empty: the limit was reached
};

/// Sends the first of `orders`, and returns how many: 0 if the guard has to read first. The guard
/// gets what was sent even if the agent ends before it has read it. Does not block. Fails with
/// kPeerLost once the guard has ended, with kIo if the kernel takes no more descriptors.
Result<std::size_t> send_orders(int channel, std::span<const GuardOrder> orders);

/// Receives the next message. False if there is none, or no sender is left.
bool receive_orders(int channel, GuardOrders& out);

/// Writes kGoodbye to an end, if that takes it without blocking.
void send_goodbye(int end);

}  // namespace ddprun
