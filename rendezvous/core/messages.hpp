#pragma once

// The messages between agents, as values. docs/connections.md has each field; message_json.hpp
// turns them into JSON. The caller is the node that opened the connection; it begins with a Hello.

#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/node_info.hpp"
#include "rendezvous/core/voter_state.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The workers of one node.
enum class WorkersState : std::uint8_t {
  kStopped,    // no process of them is left
  kRunning,    // started
  kFailed,     // one of them failed; the others are being stopped
  kSucceeded,  // all exited with 0, and no process of them is left
};

/// Whether some of them may still run.
constexpr bool is_under_way(WorkersState state) {
  return state == WorkersState::kRunning || state == WorkersState::kFailed;
}

/// One line of a worker's output.
struct TextLine {
  std::string text;

  bool operator==(const TextLine&) const = default;
};

/// The worker that failed first on its node.
struct FailureNews {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;  // 0: it could not be started
  std::string host;
  std::string how;             // "exited with status 3"
  int exit_status = 0;         // the job's, unless it restarts
  int signal = 0;              // that ended the worker; 0: none
  bool can_be_retried = true;  // false: the program cannot be executed
  bool needs_pause = false;    // it could not be started: no process, no memory
  // Of its output (comparable_line), if it crashed on start; sent as soon as it was read.
  std::optional<TextLine> last_line = std::nullopt;

  /// REQUIRES: it had a preemption notice.
  bool has_saved() const { return contract::has_saved(worker_end()); }
  bool may_come_of_notice() const { return contract::may_come_of_notice(worker_end()); }
  Suspicion suspicion() const { return ddprun::suspicion(worker_end()); }
  /// Whether it is the same failure, with or without its last line. REQUIRES: both of one round.
  bool is_of_same_worker(const FailureNews& other) const {
    return rank == other.rank && pid == other.pid && host == other.host;
  }

  bool operator==(const FailureNews&) const = default;

 private:
  contract::WorkerEnd worker_end() const {
    return {.pid = pid, .exit_status = exit_status, .signal = signal};
  }
};

/// A node that may become the next leader.
struct Successor {
  Incarnation node{};
  Endpoint at;

  bool operator==(const Successor&) const = default;
};

// From the caller. -----------------------------------------------------------------------------

/// The first message on every connection.
struct Hello {
  std::string job;
  NodeInfo node;
  // These have to be the same on all nodes: the leader's apply to all.
  int nodes_min = 1;  // --nnodes
  int nodes_max = 1;
  int max_restarts = 0;
  bool needs_progress = false;  // --restart-policy progress
  Duration lease{};
  bool has_fence = false;  // --fence-dir
  bool trusts_replacement = false;
  VoterState voter_state;
  // The caller was told that a round of this instance was started, and hears none of its nodes. It
  // does not join an instance that has started no round. None: it was not told of any.
  Instance awaits = {};
  // The caller only checks whether the node that has to listen at this port of the called machine
  // is unable to. None: it wants to take part.
  std::optional<int> checks_port = std::nullopt;

  bool operator==(const Hello&) const = default;
};

/// How far a worker is, for people. One that has made no step has none.
struct StepReport {
  int local_rank = 0;
  std::int64_t step = 0;  // made in this attempt, or the number that the script has told
  Duration step_time{};   // how long one took, lately; 0: not known
  Duration age{};         // since the last one
  std::optional<std::string> busy_with = std::nullopt;  // an announced pause

  bool operator==(const StepReport&) const = default;
};

/// "I am alive." Numbered from 1 on each connection.
struct Heartbeat {
  std::int64_t number = 0;
  std::int64_t heard = 0;  // the newest HeartbeatReply received; 0: the Welcome
  // Of this node's workers; none: as before. The agent adds them.
  std::optional<std::vector<StepReport>> steps = std::nullopt;

  bool operator==(const Heartbeat&) const = default;
};

/// "That reply arrived", sent at once, so that it counts for the leader's own lease (E2) before the
/// next Heartbeat.
struct Confirm {
  std::int64_t heard = 0;  // the newest HeartbeatReply received
  bool operator==(const Confirm&) const = default;
};

/// The offer arrived; a start of this round will be obeyed.
struct Acknowledge {
  RoundId round;

  bool operator==(const Acknowledge&) const = default;
};

/// The state of its workers, sent whenever it changes and after every Welcome.
struct WorkerNews {
  RoundId round;
  WorkersState state = WorkersState::kStopped;
  std::optional<FailureNews> failure;  // with kFailed, and with the kStopped that follows
  std::vector<int> pids;               // by local rank, with kRunning; 0: ended
  bool has_saved = false;  // with kStopped, after a notice: each exited by itself, with 0 or 75
  std::string unfit;       // why this node should run no workers, by its check; empty: it is fit

  bool operator==(const WorkerNews&) const = default;
};

inline constexpr std::size_t kFailureLinesMax = 40;

/// The last output of the worker that ended the round, for the leader's console. Sent when it was
/// read and no worker of the node is left.
struct FailureText {
  RoundId round;
  int rank = 0;
  std::vector<TextLine> lines;  // at most kFailureLinesMax; empty: unknown

  bool operator==(const FailureText&) const = default;
};

/// This node was told to stop.
struct Leaving {
  int signal = 0;          // SIGKILL if a person sent a second one, and does not wait any longer
  bool whole_job = false;  // the signal is for the whole job, not for this node (a Slurm step)

  bool operator==(const Leaving&) const = default;
};

/// "I have lost my leader and my workers are stopped, so I can vote." (E4)
struct PreVote {
  LeaderDeath dead;  // the newest that this node knows
  VoterState voter_state;

  bool operator==(const PreVote&) const = default;
};

/// "I obey no leader of an older term, and have not voted for another node in this one." (E4)
struct Vote {
  std::int64_t term = 0;
  LeaderDeath dead;        // the newest that this node knows
  VoterState voter_state;  // as it was before the vote

  bool operator==(const Vote&) const = default;
};

/// The verdict has arrived.
struct VerdictHeard {
  bool operator==(const VerdictHeard&) const = default;
};

// From the called node. ------------------------------------------------------------------------

/// "You are with me: I lead."
struct Welcome {
  Instance instance;
  std::int64_t term = 0;
  NodeInfo leader;
  Duration lease{};
  Duration margin{};
  std::vector<Successor> successors;  // as in the newest offer
  bool has_begun = false;             // a round of that instance was started
  bool is_full = false;               // a round runs without the caller, with all slots taken

  bool operator==(const Welcome&) const = default;
};

/// Replies to a Heartbeat. The newest one gets another reply when there is more to grant.
struct HeartbeatReply {
  std::int64_t number = 0;  // of the heartbeat
  Duration grant{};         // how long workers may run, from when that heartbeat was sent (E3)
  RoundId round;            // of the voter set that the next field counts
  int voter_count = 0;
  Duration next{};  // when the next heartbeat is due, from when that one was sent

  bool operator==(const HeartbeatReply&) const = default;
};

/// "The leader of this term is there." A reply to a Hello; or the only message of a call, with
/// which the leader informs the node that now listens at the endpoint.
struct Redirect {
  std::string job;
  std::string program;  // of Workload
  std::string role;
  Instance instance;
  bool has_begun = false;  // a round of that instance was started
  Leadership leadership;
  Endpoint leader;  // host "": the other end of the connection

  bool operator==(const Redirect&) const = default;
};

/// "A node of that instance, which has started a round, waits there for a leader." The only message
/// of a call, to the node that now listens at the endpoint: one that lost its memory may bootstrap
/// the job again there.
struct Survivor {
  std::string job;
  std::string program;  // of Workload
  std::string role;
  Instance instance;
  Endpoint at;  // host "": the source address of the connection

  bool operator==(const Survivor&) const = default;
};

/// Why the waiting nodes cannot elect a leader, for people; empty: there is nothing to report.
struct QuorumLoss {
  std::string why;   // "n1 is silent and ..., so n0 cannot continue without it"
  std::string ends;  // when that is over: "it is heard again, or ..."

  bool operator==(const QuorumLoss&) const = default;
};

/// "I know no leader. Wait for that node, which may lead next." It is the sender, or the node that
/// the sender waits for.
struct Wait {
  Incarnation node{};
  Endpoint at;
  bool elsewhere = false;  // the node is not the sender
  QuorumLoss loss = {};    // after a while
  bool operator==(const Wait&) const = default;
};

/// A successor requests a vote.
struct VoteRequest {
  std::int64_t term = 0;

  bool operator==(const VoteRequest&) const = default;
};

/// A node's slot in a round.
struct Place {
  int group_rank = 0;  // 0 <= group_rank < group_size
  int group_size = 1;
  int first_rank = 0;  // of its first worker
  int world_size = 1;

  bool operator==(const Place&) const = default;
};

/// A round that is to start.
struct OfferRound {
  RoundId round;
  VoterSet committed;                 // of the newest started round, if this node belongs to it
  std::optional<Place> place;         // none: a spare
  int nodes = 0;                      // that run in it
  bool leader_runs = true;            // the leader is one of them
  int voter_count = 0;                // the nodes and the spares
  Endpoint master;                    // of the workers; host "": where the leader was reached
  std::vector<Successor> successors;  // in the order in which they are tried
  std::string hosts;                  // by group rank, separated by commas; as many as fit
  Progress progress;

  bool operator==(const OfferRound&) const = default;
};

/// All nodes have acknowledged: start the round.
struct StartRound {
  RoundId round;

  bool operator==(const StartRound&) const = default;
};

/// Stop the workers of this round.
struct StopRound {
  RoundId round;
  std::string why;
  std::optional<FailureNews> culprit;  // none: no worker failed
  bool restarts = false;               // another round follows
  // The signal of a preemption notice, for workers to save; SIGKILL later, if no time is left; 0:
  // none.
  int notice = 0;
  int restarts_used = 0;  // this one included
  int restarts_max = 0;
  int crashes = 0;       // attempts in a row that crashed on start (crash_loop.hpp)
  bool repeats = false;  // the last two crashed alike
  Duration pause{};      // before the next round

  bool operator==(const StopRound&) const = default;
};

/// How the job ends. It is final once a majority has received it; then agents exit.
struct VerdictNews {
  Verdict verdict;
  bool is_final = false;

  bool operator==(const VerdictNews&) const = default;
};

/// "You cannot join." The agent exits.
struct Refuse {
  std::string job;      // that runs there; empty: not for the caller (another version or secret)
  int exit_status = 1;  // never 0: nothing was done
  std::string why;
  // Of the leader that refuses because another node has the node rank; none: any other reason.
  std::optional<Instance> instance = std::nullopt;
  bool is_stranger = false;  // the caller is of another job: its id, program or role differs

  bool operator==(const Refuse&) const = default;
};

using Message = std::variant<
    Hello,
    Heartbeat,
    Confirm,
    Acknowledge,
    WorkerNews,
    FailureText,
    Leaving,
    PreVote,
    Vote,
    VerdictHeard,
    Welcome,
    HeartbeatReply,
    Redirect,
    Survivor,
    Wait,
    VoteRequest,
    OfferRound,
    StartRound,
    StopRound,
    VerdictNews,
    Refuse>;

}  // namespace ddprun
