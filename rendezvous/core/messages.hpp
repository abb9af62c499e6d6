#pragma once

// What agents say to each other, as values. docs/rendezvous.md describes each field; on the wire
// they are JSON (message_json.hpp). Whoever connected is the caller, and begins with a Hello.

#include "base/endpoint.hpp"
#include "base/suspicion.hpp"
#include "base/time.hpp"
#include "base/worker_contract.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// One life of one agent, drawn at random at its start: a restarted agent is another one, and
/// no vote or lease of the earlier life holds for it (E4).
enum class Incarnation : std::uint64_t {};

/// Rounds are counted through all terms, so a larger number is a later round.
struct RoundId {
  std::int64_t term = 0;  // of the leader that offered it; 0: no round
  std::int64_t number = 0;

  auto operator<=>(const RoundId&) const = default;
};

/// One leadership. Two leaders of different instances of a job may have one term, so whether
/// two are the same is never asked of the number alone.
struct Leadership {
  std::int64_t term = 0;  // 0: none
  Incarnation leader{};

  bool operator==(const Leadership&) const = default;
};

/// One run of a job, from one bootstrap leader on, through all later leaders: leases and votes of
/// one mean nothing in another. Starting the same job a second time at the
/// same endpoint begins another instance, with term 1 again.
struct Instance {
  Incarnation bootstrap_leader{};  // its bootstrap leader; 0: no instance
  std::int64_t bootstrapped_ms =
      0;  // ms since 1970 by that node's clock; the later one of two gives way

  bool exists() const { return bootstrap_leader != Incarnation{}; }
  bool operator==(const Instance& other) const {
    return bootstrap_leader == other.bootstrap_leader;
  }
};

/// The machine of an agent, by what its kernel says. Empty: unknown.
struct Machine {
  std::string boot;  // /proc/sys/kernel/random/boot_id: another one after each start
  std::string id;    // /etc/machine-id: stays

  bool operator==(const Machine&) const = default;
};

/// Whether two agents surely have, or had, one machine.
inline bool is_same_machine(const Machine& a, const Machine& b) {
  const bool is_same_boot = !a.boot.empty() && a.boot == b.boot;
  const bool is_rebooted = !a.id.empty() && a.id == b.id && a.boot != b.boot;
  return is_same_boot || is_rebooted;
}

/// What a node came to run. Nodes of one job have one program and one role; their commands may
/// differ (`--machine_rank 1`).
struct Workload {
  std::string program;  // file name without its directory, or "-m MODULE"
  std::string role;
  std::string command;  // as typed, cut, for people
  std::string step;     // the Slurm step that it was started in, "812.0"; empty: none
  // That step has as many nodes as the job at most (MAX of --nnodes), so no other step adds any.
  bool step_is_complete = false;

  bool operator==(const Workload&) const = default;
};

/// Whether a node that came to run `b` may run in the job of `a`: another one's workload, or a
/// message that tells of a job.
bool is_same_job(const auto& a, const Workload& b) {
  return a.program == b.program && a.role == b.role;
}

/// Whether each of them was started in a Slurm step that is a job of its own.
inline bool are_separate_steps(const Workload& a, const Workload& b) {
  return a.step != b.step && a.step_is_complete && b.step_is_complete;
}

/// Who an agent is. Never changes while it lives.
struct NodeInfo {
  Incarnation incarnation{};
  std::string host;  // for people, and for the order of nodes
  Endpoint listens;  // where the others reach it; host "": where its connection comes from
  std::optional<int> node_rank;  // the place it asks for
  int workers = 1;               // that it starts in a round, >= 1
  Machine machine;
  Workload workload;

  bool operator==(const NodeInfo&) const = default;
};

/// How the job ends, on every node.
struct Verdict {
  int exit_status = 0;
  std::string why;  // a clause for people

  bool operator==(const Verdict&) const = default;
};

/// A node that was proved dead too late to be subtracted from its voter set at once (E9).
struct LateDeath {
  Incarnation node{};
  bool is_replaced =
      false;  // another node has taken its name or rank, whether there is a proof or not

  bool operator==(const LateDeath&) const = default;
};

/// Of VoterSet::late; more are not told, and count as alive.
inline constexpr std::size_t kLateMax = 64;

/// A node of a round's voter set.
struct RoundMember {
  Incarnation node{};
  bool runs = false;  // or is a spare

  bool operator==(const RoundMember&) const = default;
};

/// Who may elect: the nodes of a round and the spares that were there (E1), as one of them knows
/// it.
struct VoterSet {
  RoundId round;                // number 0: none yet
  int size = 0;                 // less those who were proved dead and cannot have voted
  bool is_member = false;       // the node that says so belongs to it
  bool is_leader = false;       // it led that round, and may cast the vote that breaks a tie (E8)
  std::vector<LateDeath> late;  // counted in `size`
  // Some of the others, the first successors, in case that the offer did not reach them.
  std::vector<RoundMember> members;

  bool operator==(const VoterSet&) const = default;
};

/// Of VoterState::unsettled. One more comes with each leader that is lost before its first round
/// runs.
inline constexpr std::size_t kUndecidedMax = 64;

/// How far the job has come. Travels with every offer, so that whoever leads next knows it.
struct Progress {
  int attempt = 0;         // restarts for any reason: TORCHELASTIC_RESTART_COUNT
  int restarts_used = 0;   // of the budget (R5)
  int world = 0;           // workers of the round that is offered
  int previous_world = 0;  // and of the round before; 0: there was none
  std::string reason;      // why the round before ended; empty for the first

  bool operator==(const Progress&) const = default;
};

/// What a node can tell a successor of the job's past (E5).
struct VoterState {
  Instance instance;      // of which all of this is; none: it knows nothing
  std::int64_t term = 0;  // the newest that it obeyed or voted in
  Leadership obeyed;      // the newest whose leader has welcomed it
  VoterSet committed;     // of the newest round that it knows was started
  VoterSet offered;       // of the newest round that it acknowledged; may be the same
  // Of rounds in between that it acknowledged to other leaders, which may have started them unseen.
  std::vector<VoterSet> undecided;
  int offered_nodes = 0;    // that were to run in it
  bool was_to_run = false;  // this node is one of those
  bool leader_ran = true;   // so was the leader that offered it; not if it is unfit
  int group_rank = -1;      // its place in the newest round it ran in; -1: none
  Progress progress;        // with the newest round it acknowledged
  std::optional<Verdict> verdict;

  bool operator==(const VoterState&) const = default;
};

/// Whether a round of this instance was started, for all that whoever says so knows.
inline bool has_begun(const VoterState& voter_state) {
  return voter_state.committed.round.number != 0;
}

/// What a node knows of the death of a leader (E6, E9).
struct LeaderDeath {
  Leadership of;         // term 0: it knows of none
  bool in_time = false;  // proved before that leader could have led again by the casting vote
  bool is_replaced =
      false;  // another node has taken its name or rank, whether there is a proof or not

  bool operator==(const LeaderDeath&) const = default;
};

/// Changes each voter set of `standing`.
template <class Change>
void change_voter_sets(VoterState& voter_state, const Change& change) {
  change(voter_state.committed);
  change(voter_state.offered);
  for (VoterSet& voters : voter_state.undecided) {
    change(voters);
  }
}

/// The voter sets that whoever says so knows of.
inline std::vector<const VoterSet*> voter_sets_of(const VoterState& voter_state) {
  std::vector<const VoterSet*> known = {&voter_state.committed, &voter_state.offered};
  for (const VoterSet& voters : voter_state.undecided) {
    known.push_back(&voters);
  }
  return known;
}

/// The workers of one node.
enum class WorkersState : std::uint8_t {
  kStopped,    // none of them runs, nor anything they left behind
  kRunning,    // started
  kFailed,     // one of them ended badly; the others are being stopped
  kSucceeded,  // all exited 0, and nothing is left behind
};

/// Whether some of them may still run.
constexpr bool is_under_way(WorkersState state) {
  return state == WorkersState::kRunning || state == WorkersState::kFailed;
}

/// One line of what a worker wrote.
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
  int exit_status = 0;         // what the job ends with if it is not restarted
  int signal = 0;              // that ended the worker; 0: none
  bool can_be_retried = true;  // false: the program cannot be executed
  bool needs_pause = false;    // it could not be started: no process, no memory
  // That it said (comparable_line), of a crash on start; told as soon as it was read.
  std::optional<TextLine> last_line = std::nullopt;

  /// If it was told to.
  bool has_saved() const { return contract::has_saved(worker_end()); }
  bool may_come_of_notice() const { return contract::may_come_of_notice(worker_end()); }
  Suspicion suspicion() const { return ddprun::suspicion(worker_end()); }
  /// The same failure, whether its last line is known yet or not. REQUIRES: both of one round.
  bool is_of_same_worker(const FailureNews& other) const {
    return rank == other.rank && pid == other.pid && host == other.host;
  }

  bool operator==(const FailureNews&) const = default;

 private:
  contract::WorkerEnd worker_end() const {
    return {.pid = pid, .exit_status = exit_status, .signal = signal};
  }
};

/// A node that may lead next.
struct Successor {
  Incarnation node{};
  Endpoint at;

  bool operator==(const Successor&) const = default;
};

// From the caller. -----------------------------------------------------------------------------

/// The first words on every connection.
struct Hello {
  std::string job;
  NodeInfo node;
  // What has to be the same everywhere: whoever leads, it holds for all.
  int nodes_min = 1;  // --nnodes
  int nodes_max = 1;
  int max_restarts = 0;
  bool needs_progress = false;  // --restart-policy progress
  Duration lease{};
  bool has_fence = false;  // --fence-dir
  bool trusts_replacement = false;
  VoterState voter_state;
  // A round of that instance was started, as the caller was told, and none of its nodes is heard:
  // it joins no other one of which no round was. None: it knows of none.
  Instance awaits = {};
  // The caller wants to know no more than whether the node that was to listen at this port of the
  // machine it calls cannot do so. None: it wants to take part.
  std::optional<int> asks_of_port = std::nullopt;

  bool operator==(const Hello&) const = default;
};

/// "I am alive." Counted from 1 on each connection.
struct Heartbeat {
  std::int64_t number = 0;
  std::int64_t heard = 0;  // the newest HeartbeatReply that arrived here; 0: the Welcome

  bool operator==(const Heartbeat&) const = default;
};

/// "That reply arrived", sent at once, so that it counts for the leader's own lease (E2) before
/// the next Heartbeat.
struct Confirm {
  std::int64_t heard = 0;  // the newest HeartbeatReply that arrived here
  bool operator==(const Confirm&) const = default;
};

/// The offer arrived; a start of this round will be obeyed.
struct Acknowledge {
  RoundId round;

  bool operator==(const Acknowledge&) const = default;
};

/// What its workers do, told whenever it changes and after every Welcome.
struct WorkerNews {
  RoundId round;
  WorkersState state = WorkersState::kStopped;
  std::optional<FailureNews> failure;  // with kFailed, and with the kStopped that follows
  std::vector<int> pids;               // by local rank, with kRunning; 0: ended
  bool has_saved = false;  // with kStopped, after a notice: each exited by itself, with 0 or 75
  std::string unfit;       // why this node had better run no workers: its check; empty: it may

  bool operator==(const WorkerNews&) const = default;
};

inline constexpr std::size_t kFailureLinesMax = 40;

/// The last output of the worker that ended the round, for the leader's console. Sent once it was
/// read and no worker of the node is left.
struct FailureText {
  RoundId round;
  int rank = 0;
  std::vector<TextLine> lines;  // at most kFailureLinesMax; empty: none is known

  bool operator==(const FailureText&) const = default;
};

/// This node was told to stop.
struct Leaving {
  int signal = 0;          // SIGKILL, after another: a person says it again, and waits no longer
  bool whole_job = false;  // the signal means the job, not the node (a Slurm step)

  bool operator==(const Leaving&) const = default;
};

/// "I have lost my leader, my workers are stopped: I can vote." (E4)
struct PreVote {
  LeaderDeath dead;  // the newest that this node knows of
  VoterState voter_state;

  bool operator==(const PreVote&) const = default;
};

/// "I obey no leader of an older term, and voted for no other in this one." (E4)
struct Vote {
  std::int64_t term = 0;
  LeaderDeath dead;        // the newest that this node knows of
  VoterState voter_state;  // as it was before the vote

  bool operator==(const Vote&) const = default;
};

/// The verdict is known here.
struct VerdictHeard {
  bool operator==(const VerdictHeard&) const = default;
};

// From whom was called. ------------------------------------------------------------------------

/// "You are with me: I lead."
struct Welcome {
  Instance instance;
  std::int64_t term = 0;
  NodeInfo leader;
  Duration lease{};
  Duration margin{};
  std::vector<Successor> successors;  // as in the newest offer
  bool has_begun = false;             // a round of that instance was started
  bool is_full = false;               // a round runs without the caller, and has all nodes it may

  bool operator==(const Welcome&) const = default;
};

/// Replies to a Heartbeat; the newest one gets another reply when there is more to grant.
struct HeartbeatReply {
  std::int64_t number = 0;  // of the heartbeat
  Duration grant{};  // the node's workers may run so long from when that heartbeat was sent (E3)
  RoundId round;     // whose voter set it is that the next field counts
  int voter_count = 0;
  Duration next{};  // from when that heartbeat was sent to when the next one is wanted

  bool operator==(const HeartbeatReply&) const = default;
};

/// "The leader of this term is there." An answer to a hello; or the only message of a call,
/// by which who leads tells whoever listens at the endpoint now.
struct Redirect {
  std::string job;
  std::string program;  // of Workload
  std::string role;
  Instance instance;
  bool has_begun = false;  // a round of that instance was started
  Leadership leadership;
  Endpoint leader;  // host "": where the connection leads to or comes from

  bool operator==(const Redirect&) const = default;
};

/// "A node of that instance, of which a round was started, waits there for a leader." The only
/// message of a call, to whoever listens at the endpoint now: a node that lost its memory may found
/// the job again there.
struct Survivor {
  std::string job;
  std::string program;  // of Workload
  std::string role;
  Instance instance;
  Endpoint at;  // host "": where the connection comes from

  bool operator==(const Survivor&) const = default;
};

/// Why the waiting nodes cannot elect a leader, for people; empty: there is nothing to say.
struct QuorumLoss {
  std::string why;   // "n1 is silent and ..., so n0 may not go on without it"
  std::string ends;  // when that is over: "it is heard again, or ..."

  bool operator==(const QuorumLoss&) const = default;
};

/// "Nobody leads that I know of. Wait for that node, which may do so next: I do, or am it."
struct Wait {
  Incarnation node{};
  Endpoint at;
  bool elsewhere = false;  // it is another than the one that says so
  QuorumLoss loss = {};    // if it has been a while
  bool operator==(const Wait&) const = default;
};

/// A successor asks for a vote.
struct VoteRequest {
  std::int64_t term = 0;

  bool operator==(const VoteRequest&) const = default;
};

/// What this node gets in a round.
struct Place {
  int group_rank = 0;  // 0 <= group_rank < group_size
  int group_size = 1;
  int first_rank = 0;  // of its first worker
  int world_size = 1;

  bool operator==(const Place&) const = default;
};

/// A round, before it starts.
struct OfferRound {
  RoundId round;
  VoterSet committed;          // of the newest round that was started, as far as this node is in it
  std::optional<Place> place;  // none: a spare
  int nodes = 0;               // that run in it
  bool leader_runs = true;     // the leader is one of these
  int voter_count = 0;         // those and the spares
  Endpoint master;             // where the workers meet; host "": where the leader was reached
  std::vector<Successor> successors;  // in the order in which they are tried
  std::string hosts;                  // of the nodes, with commas
  Progress progress;

  bool operator==(const OfferRound&) const = default;
};

/// All have acknowledged: start it.
struct StartRound {
  RoundId round;

  bool operator==(const StartRound&) const = default;
};

/// End the workers of this round.
struct StopRound {
  RoundId round;
  std::string why;
  std::optional<FailureNews> culprit;  // none: no worker failed
  bool restarts = false;               // another round is to follow
  // The signal that announces the job's end, for workers to save; SIGKILL, later: they have no time
  // left for it; 0: none.
  int notice = 0;
  int restarts_used = 0;  // that one included
  int restarts_max = 0;
  int crashes = 0;       // how many attempts in a row crashed on start (crash_loop.hpp)
  bool repeats = false;  // the last two alike
  Duration pause{};      // before the next round

  bool operator==(const StopRound&) const = default;
};

/// How the job ends. An agent leaves once it is final, which it is when a majority has heard it.
struct VerdictNews {
  Verdict verdict;
  bool is_final = false;

  bool operator==(const VerdictNews&) const = default;
};

/// "Not with me." The agent ends.
struct Refuse {
  std::string job;  // that runs there; empty: the caller may not know (another version or secret)
  int exit_status = 0;
  std::string why;
  // Whose leader refuses, since another node has the place; none: somebody else does.
  std::optional<Instance> instance = std::nullopt;
  bool is_stranger = false;  // not of the caller's job at all: another id, program or role

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
