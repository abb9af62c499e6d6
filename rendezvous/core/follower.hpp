#pragma once

// Follower: what a node does under a leader, from the Welcome until the connection ends. It sends
// heartbeats, which extend its lease (worker_lease.hpp), acknowledges offers, starts and stops
// rounds, and reports what its workers do. A node that leads follows itself, without heartbeats.

#include "base/check.hpp"
#include "base/time.hpp"
#include "rendezvous/core/effects.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/core/voter.hpp"
#include "rendezvous/core/worker_lease.hpp"

#include <cstdint>
#include <deque>
#include <optional>

namespace ddprun {

class Follower {
 public:
  /// What it takes outlives it.
  Follower(const RendezvousPolicy& policy, Voter& voter, WorkerLease& workers)
      : policy_(policy), voter_(voter), workers_(workers) {}

  /// It has a leader, which may be itself.
  bool follows() const { return link_.has_value(); }
  bool follows_another() const { return link_ && *link_ != kSelfLink; }
  bool leads() const { return link_ == kSelfLink; }
  /// REQUIRES: follows().
  Link link() const {
    DDPRUN_CHECK(link_);
    return *link_;
  }
  /// That this node was told to stop; none: it was not.
  const std::optional<Leaving>& leaving() const { return leaving_; }

  /// This node starts beside another one of the job, on one machine. Until then it reports no
  /// workers, so it gets no place before the nodes that restart on machines without one.
  void be_ready_at(TimePoint at) { ready_at_ = at; }
  /// The leader at the other end of `link` has welcomed this node. REQUIRES: the voter obeys it.
  void follow(Link link, const Welcome& welcome, TimePoint now, Effects& out);
  /// A round has started without this node.
  void left_out(const Welcome& welcome, TimePoint now);
  void lead(Effects& out);
  /// The connection has ended, or the leadership.
  void end();

  // What arrives from the leader. REQUIRES: follows().
  void on(const HeartbeatReply& reply, TimePoint now, Effects& out);
  void on(const OfferRound& offer, TimePoint now, Effects& out);
  void on(const StartRound& start, TimePoint now, Effects& out);
  void on(const StopRound& stop, TimePoint now, Effects& out);

  void signalled(int signal, bool whole_job, Effects& out);
  void report_workers(Effects& out) const;
  /// Sends it to the leader. REQUIRES: follows().
  void send(Message message, Effects& out) const;

  void tick(TimePoint now, Effects& out);
  /// From when on the leader is silent, though it owes a reply; kNever: it owes none.
  TimePoint silent_at() const;
  TimePoint next_deadline(TimePoint last_event) const;

 private:
  struct Heartbeats {  // on this connection
    struct Sent {
      std::int64_t number = 0;
      TimePoint at;
    };
    std::int64_t newest = 0;
    std::int64_t heard = 0;  // the newest that has a reply
    std::deque<Sent> sent;   // those that may still get one
    TimePoint due_at;
  };

  void send_heartbeat(TimePoint now, Effects& out);
  void stand_by(TimePoint now);
  void report_spare(Effects& out);

  const RendezvousPolicy& policy_;
  Voter& voter_;
  WorkerLease& workers_;
  std::optional<Link> link_;
  Heartbeats heartbeats_;
  std::optional<OfferRound> offer_;        // acknowledged on this connection, not started yet
  std::optional<TimePoint> stands_by_at_;  // then it reports that it is a spare
  bool has_reported_spare_ = false;        // since it last ran workers
  std::optional<TimePoint> ready_at_;
  std::optional<Leaving> leaving_;
};

}  // namespace ddprun
