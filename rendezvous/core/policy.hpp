#pragma once

#include "base/exit_status.hpp"
#include "base/node_range.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// How one agent takes part. Every wait that the rendezvous knows is here; docs/failover.md
/// and docs/elections.md give the reason of each default. More than twelve members: each
/// is one wait or one choice, and none changes.
struct RendezvousPolicy {
  std::string job;
  NodeInfo node;
  NodeRange nodes{1, 1};
  int max_restarts = 0;
  std::optional<Duration> restart_window;
  bool needs_progress = false;  // no restart after two crashes alike (crash_loop.hpp)
  // A node on which kUnfitFailures failures in kUnfitWithin began had better run no workers either.
  bool counts_failures = false;
  // False: all nodes share one, so that each thing is said once there. True: what befalls all of
  // them is said by each, and the leader shows the last output of a worker that failed elsewhere.
  bool has_own_console = false;
  bool must_run_itself = false;       // workers of the leader: rank 0 is to be on its machine
  int notice_status = kExitTryAgain;  // of a job whose workers have all saved after a notice
  int expected = 0;                   // nodes that are known to come, spares included; 0: not known

  bool spares = false;           // nodes beyond nodes.max() are meant (--spares)
  bool ranks_are_places = true;  // of two nodes with one node rank the second is refused; else a
                                 // rank is a wish

  bool took_part = false;            // it had workers, before it lost its lease in a suspension
  bool bootstraps = true;            // it leads the first term, having bound an endpoint
  std::int64_t bootstrapped_ms = 0;  // what Instance::bootstrapped_ms is to be, if it does
  bool hosts_if_called = false;      // it listens on the endpoint's port, and leads the first
                                     // term once a call to the endpoint has come here
  std::string if_unanswered;         // what to do if nobody answers there, for people; may be empty
  std::string if_alone;              // what to say of it if nobody comes; may be empty
  std::vector<Endpoint> endpoints;   // likeliest first; none: nobody else is to come
  bool endpoint_has_name = false;    // the name of their host may lead elsewhere for a while
  // Why this node, which was to host the endpoint, cannot: it refuses those that call, and ends.
  // Empty: it can, or was not to.
  std::string cannot_host;
  std::vector<Endpoint> refusals;  // where such a node is then
  // False: the endpoint may be a proxy, which takes connections though no node has come yet.
  bool ends_at_foreign = false;
  // Agents on this node's machine that ran in an instance of the job which has begun. They come
  // before the endpoint, and a node that bootstraps all the same starts no round before they had
  // the time to call.
  std::vector<Endpoint> survivors;
  Endpoint master;  // where our own store listens, when we lead

  Duration lease = std::chrono::seconds(3);
  Duration margin = std::chrono::milliseconds(450);
  bool trusts_reset =
      true;  // the end of a lifeline proves a death (--trust-reset=off: it does not)
  // A node that starts under the host name or node rank of another proves that one dead.
  bool trusts_replacement = false;
  bool has_fence = false;  // half of a voter set may lead that claims its fence (E10)

  Duration join_timeout = std::chrono::seconds(600);  // to get MIN nodes
  std::optional<Duration> regather_timeout;  // to get them again, after a round; none: the same
  // For more, before the first round; at least survivors_heard_within().
  Duration last_call = std::chrono::seconds(30);
  Duration expected_wait = std::chrono::seconds(2);  // for all expected, before the first round
  Duration search_timeout =
      std::chrono::seconds(30);                      // without any leader, for a node that had one
  Duration line_patience = std::chrono::seconds(1);  // with a node whose lifeline does not come
  Duration start_pause = std::chrono::seconds(1);    // after a worker could not be started
  Duration newcomer_pause =
      std::chrono::seconds(1);  // for more newcomers, before a restart for one
  // Slurm signals workers as it does their agents, which may learn of the end of one, or of all
  // that have saved and exited with 0, before they hear of the notice.
  Duration
      notice_delay{};  // at most, to the first agent that is told; 0: workers are not signalled
  Duration verdict_timeout = std::chrono::seconds(5);  // for the last to hear the verdict
  // For the others to call a node that cannot host the endpoint. Slurm starts them within a second
  // or two.
  Duration refusal_wait = std::chrono::seconds(8);
  Duration patience = std::chrono::milliseconds(500);       // with one of several that might lead
  Duration call_patience = std::chrono::milliseconds(150);  // to reach it; grows with each search
  Duration retry_pause = std::chrono::milliseconds(20);  // after all were called in vain; doubles
  // Below a second, with the jitter, for one that comes to lead and one that then finds it.
  Duration retry_pause_max = std::chrono::milliseconds(300);

  std::uint64_t seed = 0;  // of chance in the pauses, so that two do not keep in step
};

/// A node that breaks a job now and then is not fit, though each check of it finds nothing.
inline constexpr int kUnfitFailures = 3;
inline constexpr Duration kUnfitWithin = std::chrono::hours(1);

/// The longest time between two heartbeats of a node: what large jobs have. The leader of a small
/// one asks for them sooner. docs/elections.md has the sums: a node that was cut off for less than
/// 0.8 leases is to be in time.
constexpr Duration heartbeat_interval(Duration lease) {
  return lease / 10;
}

/// What the leader of so many nodes asks for. Each heartbeat costs it some twenty microseconds, of
/// which most are the kernel's.
constexpr Duration heartbeat_interval(Duration lease, std::size_t nodes) {
  constexpr std::size_t kFew = 64;
  return nodes <= kFew ? lease / 15 : heartbeat_interval(lease);
}

/// A network that is slower than this is too slow for the lease; nobody is waited for longer.
constexpr Duration longest_round_trip(Duration lease) {
  return lease / 5;
}

/// Once the leader has not been heard for that long a node calls it again, beside the connection
/// that it has: TCP would send what was lost again only after as long as it had already waited.
constexpr Duration silence_before_call(Duration lease) {
  return lease / 4;
}

/// Between two such calls. Each is a new one: a first packet that is lost is sent again after a
/// second.
constexpr Duration call_interval(Duration lease) {
  return lease / 20;
}

/// Who leads elsewhere, and one of each group of survivors without a leader, calls at the endpoint
/// that often.
inline constexpr Duration kAnnounceInterval = std::chrono::milliseconds(150);

/// Who is in a round, or was, has called at the endpoint within that long after its machine is up
/// again, where the network is whole: a leader elsewhere and a survivor that looks for one at the
/// next interval, a follower once its next heartbeat is refused by a machine that knows nothing of
/// it; and the call takes three ways of 50 ms at most. No longer than a second, for leases so long
/// that nobody would wait.
constexpr Duration announced_within(Duration lease) {
  constexpr Duration kCall = std::chrono::milliseconds(150);
  constexpr Duration kMost = std::chrono::milliseconds(850);
  return std::clamp(lease / 15, kAnnounceInterval, kMost) + kCall;
}

/// A node that looks at its clock so much later than it meant to was stopped or suspended, and has
/// not listened meanwhile.
inline constexpr Duration kOverslept = std::chrono::milliseconds(250);

/// Within that long after the endpoint's machine is up again, survivors of a round have called it:
/// on a second connection, or on the next one if a packet of that is lost; and those who look for a
/// leader, since of each group one calls there several times as often, whatever else it waits for.
constexpr Duration survivors_heard_within(Duration lease) {
  constexpr Duration kSearch = std::chrono::seconds(1);
  return std::max(kSearch, silence_before_call(lease) + 2 * call_interval(lease));
}

/// Heartbeats of an interval come in so many slots: a leader of a thousand nodes wakes for each
/// slot instead of for every heartbeat. More of them would save less, fewer would keep other
/// messages waiting.
inline constexpr int kHeartbeatSlots = 16;

}  // namespace ddprun
