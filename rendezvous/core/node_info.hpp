#pragma once

// Who takes part: an agent and what it came to run; the ids of rounds, leaderships and instances.

#include "base/endpoint.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// Identifies one run of one agent, drawn at random when it starts. A restarted agent has another
/// one, so that no vote or lease of its earlier run counts (E4).
enum class Incarnation : std::uint64_t {};

/// Numbers continue across terms, so a larger number is a later round.
struct RoundId {
  std::int64_t term = 0;  // of the leader that offered it; 0: no round
  std::int64_t number = 0;

  auto operator<=>(const RoundId&) const = default;
};

/// One leadership. Leaders of different instances of a job may have the same term, so terms alone
/// are never compared.
struct Leadership {
  std::int64_t term = 0;  // 0: none
  Incarnation leader{};

  bool operator==(const Leadership&) const = default;
};

/// One run of a job, from its bootstrap leader on, through all later leaders. Leases and votes of
/// one instance mean nothing in another. Starting the same job again at the same endpoint begins
/// another instance, with term 1.
struct Instance {
  Incarnation bootstrap_leader{};    // 0: no instance
  std::int64_t bootstrapped_ms = 0;  // since 1970 by that node's clock; of two, the later gives way

  bool exists() const { return bootstrap_leader != Incarnation{}; }
  bool operator==(const Instance& other) const {
    return bootstrap_leader == other.bootstrap_leader;
  }
};

/// The machine of an agent, as its kernel identifies it. Empty: unknown.
struct Machine {
  std::string boot;  // /proc/sys/kernel/random/boot_id: changes with each boot
  std::string id;    // /etc/machine-id: never changes

  bool operator==(const Machine&) const = default;
};

/// Whether two agents certainly run, or ran, on the same machine.
inline bool is_same_machine(const Machine& a, const Machine& b) {
  const bool is_same_boot = !a.boot.empty() && a.boot == b.boot;
  const bool is_rebooted = !a.id.empty() && a.id == b.id && a.boot != b.boot;
  return is_same_boot || is_rebooted;
}

/// What a node came to run. All nodes of a job have the same program and role; their commands may
/// differ (`--machine_rank 1`).
struct Workload {
  std::string program;  // file name without its directory, or "-m MODULE"
  std::string role;
  std::string command;  // as typed, truncated, for people
  std::string step;     // the Slurm step that started it, "812.0"; empty: none
  // That step has all nodes that the job may have (MAX of --nnodes), so no other step adds any.
  bool step_is_complete = false;

  bool operator==(const Workload&) const = default;
};

/// Whether a node with workload `b` may run in the job of `a`: another node's workload, or a
/// message with a job's program and role.
bool is_same_job(const auto& a, const Workload& b) {
  return a.program == b.program && a.role == b.role;
}

/// Whether the two were started in different Slurm steps, each of which is a whole job.
inline bool are_separate_steps(const Workload& a, const Workload& b) {
  return a.step != b.step && a.step_is_complete && b.step_is_complete;
}

/// Who an agent is. Never changes while it lives.
struct NodeInfo {
  Incarnation incarnation{};
  std::string host;  // for people, and for the order of nodes
  Endpoint listens;  // where other nodes reach it; host "": the source address of its connection
  std::optional<int> node_rank;  // --node-rank
  int workers = 1;               // per round, >= 1
  Machine machine;
  Workload workload;

  bool operator==(const NodeInfo&) const = default;
};

}  // namespace ddprun
