#pragma once

// What a node knows of the job's past, and reports to a new leader (E5).

#include "rendezvous/core/node_info.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// How the job ends, on every node.
struct Verdict {
  int exit_status = 0;
  std::string why;  // a clause for people

  bool operator==(const Verdict&) const = default;
};

/// A node whose death was proved too late to remove it from its voter set at once (E9).
struct LateDeath {
  Incarnation node{};
  bool is_replaced = false;  // another node has its name or rank, with or without a proof

  bool operator==(const LateDeath&) const = default;
};

/// The maximum of VoterSet::late; more are not sent, and count as alive.
inline constexpr std::size_t kLateMax = 64;

/// A node of a round's voter set.
struct RoundMember {
  Incarnation node{};
  bool runs = false;  // false: a spare

  bool operator==(const RoundMember&) const = default;
};

/// Who may vote: the nodes and spares of a round (E1), as one of them knows it.
struct VoterSet {
  RoundId round;                // number 0: none yet
  int size = 0;                 // without those who were proved dead and cannot have voted
  bool is_member = false;       // this node belongs to it
  bool is_leader = false;       // this node led that round, and breaks its ties (E8)
  std::vector<LateDeath> late;  // counted in `size`
  // Some of the other members, the first successors, in case the offer did not reach them.
  std::vector<RoundMember> members;

  bool operator==(const VoterSet&) const = default;
};

/// The maximum of VoterState::undecided. Each leader that is lost before its first round runs adds
/// one.
inline constexpr std::size_t kUndecidedMax = 64;

/// How far the job has come. Part of every offer, so that the next leader knows it.
struct Progress {
  int attempt = 0;         // restarts for any reason: TORCHELASTIC_RESTART_COUNT
  int restarts_used = 0;   // of the budget (R5)
  int world = 0;           // workers of the offered round
  int previous_world = 0;  // workers of the previous round; 0: there was none
  std::string reason;      // why the previous round ended; empty for the first

  bool operator==(const Progress&) const = default;
};

/// What a node can report to a successor about the job's past (E5).
struct VoterState {
  Instance instance;      // that the rest is about; none: it knows nothing
  std::int64_t term = 0;  // the newest that it obeyed or voted in
  Leadership obeyed;      // the newest whose leader has welcomed it
  VoterSet committed;     // of the newest round that it knows was started
  VoterSet offered;       // of the newest round that it acknowledged; may be the same
  // Of rounds in between that it acknowledged to other leaders, which may have started them.
  std::vector<VoterSet> undecided;
  int offered_nodes = 0;    // that were to run in the offered round
  bool was_to_run = false;  // this node is one of them
  bool leader_ran = true;   // and so is the leader that offered it; false if that is unfit
  int group_rank = -1;      // in the newest round in which it ran; -1: none
  Progress progress;        // of the newest round that it acknowledged
  std::optional<Verdict> verdict;

  bool operator==(const VoterState&) const = default;
};

/// Whether a round of this instance was started, as far as the node knows.
inline bool has_begun(const VoterState& voter_state) {
  return voter_state.committed.round.number != 0;
}

/// What a node knows of the death of a leader (E6, E9).
struct LeaderDeath {
  Leadership of;             // term 0: it knows none
  bool in_time = false;      // proved before that leader could have led again as tie-breaker
  bool is_replaced = false;  // another node has its name or rank, with or without a proof

  bool operator==(const LeaderDeath&) const = default;
};

/// Calls `change` with each voter set of `voter_state`.
template <class Change>
void change_voter_sets(VoterState& voter_state, const Change& change) {
  change(voter_state.committed);
  change(voter_state.offered);
  for (VoterSet& voters : voter_state.undecided) {
    change(voters);
  }
}

/// All voter sets of `voter_state`.
inline std::vector<const VoterSet*> voter_sets_of(const VoterState& voter_state) {
  std::vector<const VoterSet*> known = {&voter_state.committed, &voter_state.offered};
  for (const VoterSet& voters : voter_state.undecided) {
    known.push_back(&voters);
  }
  return known;
}

}  // namespace ddprun
