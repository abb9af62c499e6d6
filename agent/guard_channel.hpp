#pragma once

// What the agent tells the guard that guards it: which lifelines to hold, and how long anything
// may run here. docs/rendezvous.md says what a lifeline proves.
//
// Descriptors go through a socket pair made before the fork; the lease lies in memory that both
// share, so that an agent which is stopped need not be asked. No Asio: the guard uses this.

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/core/lifeline_hello.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// What guard and agent tell each other without a message: until when processes of the job may run
/// on this node, and whether the guard holds what it was given.
class SharedLease {
 public:
  /// The guard and the agent of this launch share it, and never give it back. Fails with kIo.
  static Result<SharedLease*> create();

  /// kNever: without limit.
  void set(TimePoint until) { until_ns_.store(until.time_since_epoch().count()); }
  TimePoint get() const { return TimePoint(Duration(until_ns_.load())); }

  /// Workers have been started under it.
  void set_took_part() { took_part_.store(true); }
  bool took_part() const { return took_part_.load(); }

  /// The guard could not take a line that it was to hold: it has no descriptor left.
  void set_front_is_full() { front_is_full_.store(true); }
  bool front_is_full() const { return front_is_full_.load(); }

  /// The agent ends because it lost its lease in a suspension: another one is to take its place.
  void set_agent_returns() { agent_returns_.store(true); }
  bool agent_returns() const { return agent_returns_.load(); }

  /// The agent ends with success, and what its workers left behind is to live on (--leftover keep).
  void set_keeps_leftovers() { keeps_leftovers_.store(true); }
  bool keeps_leftovers() const { return keeps_leftovers_.load(); }

 private:
  SharedLease() { set(kNever); }

  std::atomic<std::int64_t> until_ns_;
  std::atomic<bool> took_part_ = false;
  std::atomic<bool> front_is_full_ = false;
  std::atomic<bool> agent_returns_ = false;
  std::atomic<bool> keeps_leftovers_ = false;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // or it would end at the fork
};

/// One wish of the agent.
struct GuardOrder {
  enum class Kind : std::int32_t {
    kHoldLine,  // our own lifeline: open until nothing of this node is left
    kHoldEnd,   // another node's, while we lead: and then a goodbye is said on it
    kLetGo,     // of either
    kLook,      // the lease has become shorter
  };
  Kind kind = Kind::kLook;
  int descriptor = -1;  // in the agent, and its name here as long as it is held
};

/// As many as go into one message: the kernel takes 253 descriptors.
inline constexpr std::size_t kGuardOrdersMax = 128;

/// Orders as they arrive at the guard.
struct GuardOrders {
  std::size_t count = 0;
  std::array<GuardOrder, kGuardOrdersMax> orders;
  std::array<Descriptor, kGuardOrdersMax> copies;  // by order; empty where the limit was reached
};

/// Sends the first of `orders`, and yields how many: 0 if the guard reads too slowly just now. What
/// was sent is held even if the agent ends before the guard has read it. Does not wait. Fails with
/// kPeerLost once the guard has ended, kIo where the kernel takes no more descriptors.
Result<std::size_t> send_orders(int channel, std::span<const GuardOrder> orders);

/// Takes the next message. False if none is there, or nobody is left to send one.
bool receive_orders(int channel, GuardOrders& out);

/// Writes kGoodbye to each, as far as that can be done without a wait.
void send_goodbye(std::span<const int> ends);

}  // namespace ddprun
