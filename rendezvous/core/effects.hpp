#pragma once

// What the shell does for RendezvousNode, in the order given.

#include "base/time.hpp"
#include "rendezvous/core/link.hpp"
#include "rendezvous/core/messages.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun::effects {

/// Connect, and tell of it as `link`: RendezvousNode::Connected, or RendezvousNode::Closed if it
/// cannot be done.
struct Call {
  Link link{};
  Endpoint to;
};

struct Send {
  Link to{};
  Message message;
};

/// Send what was given before, then close. No more is told of this link.
struct Close {
  Link link{};
};

/// Open this node's lifeline to the leader that `uplink` reaches, unless there is one to this
/// leadership. Earlier ones stay open: the end of a line proves a death.
struct OpenLine {
  Link uplink{};
  Endpoint leader;  // its own address, as it states it; `uplink` may lead through another one
  Leadership leadership;
  Incarnation node{};  // this one
};

/// VoteRequest the kernel of the machine where `node` ran for the lines that lead there, ours to it
/// and its own to us: a kernel that knows nothing of them any more resets them, which is told as
/// their end. Nothing comes of it while anything of that node lives.
struct ProbeLines {
  Incarnation node{};
};

/// Claim the fence (RendezvousPolicy::has_fence) of this voter set for `node`: told as
/// RendezvousNode::FenceHeld once it is known who holds it, this node or another one.
struct ClaimFence {
  Incarnation instance{};
  RoundId round;       // of the voter set
  Incarnation node{};  // this one
};

/// This node may run workers until then; kNever: nobody else could.
struct SetLease {
  TimePoint until;
};

/// We lead: an empty store for this round, and no connection of an earlier one (R7).
struct BeginStore {
  struct Node {
    Link link{};       // its connection; kSelfLink: this node
    std::string host;  // where it listens
    Incarnation incarnation{};
  };
  RoundId round;
  std::vector<Node> nodes;              // of this round, whose workers may use the store
  std::vector<Incarnation> successors;  // in the order in which they are tried
};

/// Start the workers, if the lease has not run out at that very moment (R8).
struct StartWorkers {
  RoundId round;
  Place place;
  Endpoint master;
  std::string hosts;  // of the nodes by group rank, "n0,n1"; perhaps only of the first ones
  Progress progress;
};

/// End the workers: the stop signal, a grace, SIGKILL. Told again, nothing happens; where they have
/// ended by themselves, it says what follows.
struct StopWorkers {
  StopRound order;
};

/// SIGKILL to the workers, now: the lease ran out.
struct KillWorkers {
  std::string why;
  bool is_reported_later =
      false;  // once, by the node that leads next, on the console that all share
};

/// A node fell silent, as the one that leads now sees it, or is back. Not one whose processes died,
/// which says nothing of the machine. Until the job ends.
struct Absence {
  std::string host;
  bool is_over = false;
};

/// The last output of a worker that failed on another node, for this node's console.
struct ShowFailure {
  std::string host;
  FailureText failure;
};

/// A line for the log.
struct Note {
  std::string text;
  bool is_for_all = false;  // shown to the user who started this node, unless quiet
};

/// Leave, once no worker is left.
struct Finish {
  int exit_status = 0;
  std::string why;              // a clause for people; empty: nothing to say
  bool speaks_for_job = false;  // this node led, or nobody else can lead: one of the job's does
  bool is_reported_elsewhere = false;  // `why` comes from another node, which reports it as well
};

using Effect = std::variant<
    Call,
    Send,
    Close,
    OpenLine,
    ProbeLines,
    ClaimFence,
    SetLease,
    BeginStore,
    StartWorkers,
    StopWorkers,
    KillWorkers,
    Absence,
    ShowFailure,
    Note,
    Finish>;

}  // namespace ddprun::effects

namespace ddprun {

using effects::Effect;
using Effects = std::vector<Effect>;

}  // namespace ddprun
