#pragma once

#include "base/exit_status.hpp"
#include "base/node_range.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// How one agent takes part. Every wait that the rendezvous knows is here; docs/rendezvous.md gives
/// the reason of each default.
struct RendezvousPolicy {
  std::string job;
  NodeInfo node;
  NodeRange nodes{1, 1};
  int max_restarts = 0;
  std::optional<Duration> restart_window;
  int notice_status = kExitTryAgain;  // of a job whose workers have all saved after a notice
  int expected = 0;                   // nodes that are known to come, spares included; 0: not known

  bool founds = true;          // it leads the first generation, having bound an endpoint
  std::vector<Endpoint> meet;  // the endpoints, likeliest first; none: nobody else is to come
  Endpoint master;             // where our own store listens, when we lead

  Duration lease = std::chrono::seconds(3);
  Duration margin = std::chrono::milliseconds(450);
  bool trusts_reset =
      true;  // the end of a life line proves a death (--trust-reset=off: it does not)

  Duration join_timeout = std::chrono::seconds(600);  // to get MIN nodes
  std::optional<Duration> regather_timeout;  // to get them again, after a round; none: the same
  Duration last_call = std::chrono::seconds(30);     // for more, before the first round
  Duration expected_wait = std::chrono::seconds(2);  // for all expected, before the first round
  Duration seek_timeout = std::chrono::seconds(30);  // without any leader, for a node that had one
  Duration line_patience = std::chrono::seconds(1);  // with a node whose life line does not come
  Duration start_pause = std::chrono::seconds(1);    // after a worker could not be started
  Duration newcomer_pause =
      std::chrono::seconds(1);  // for more newcomers, before a restart for one
  // Slurm signals workers as it does their agents, which may learn of the end of one, or of all
  // that have saved and exited with 0, before they hear of the notice.
  Duration
      notice_delay{};  // at most, to the first agent that is told; 0: workers are not signalled
  Duration verdict_timeout = std::chrono::seconds(5);       // for the last to hear the verdict
  Duration patience = std::chrono::milliseconds(500);       // with one of several that might lead
  Duration call_patience = std::chrono::milliseconds(150);  // to reach it; grows with each walk
  Duration retry_pause = std::chrono::milliseconds(20);  // after all were called in vain; doubles
  Duration retry_pause_max = std::chrono::milliseconds(500);

  std::uint64_t seed = 0;  // of chance in the pauses, so that two do not keep in step
};

/// How often a node beats: four beats of a lease may be late or lost. Each costs its leader some
/// twenty microseconds, of which most are the kernel's.
constexpr Duration beat_interval(Duration lease) {
  return lease / 5;
}

/// Beats of an interval come in so many flocks: a leader of a thousand nodes wakes for each flock
/// instead of for every beat. More of them would save less, fewer would keep other messages
/// waiting.
inline constexpr int kBeatFlocks = 16;

}  // namespace ddprun
