#pragma once

// What the command line asks of one node, as valid values: launcher/ creates a LaunchPlan, agent/
// carries it out. Code after this point reads no flag and no PET_ variable.

#include "base/endpoint.hpp"
#include "base/exit_status.hpp"
#include "base/node_range.hpp"
#include "base/time.hpp"
#include "rendezvous/core/auth_proof.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

/// Where one stream of one worker goes.
enum class StreamMode : std::uint8_t {
  kInherit,  // the agent's own stream, unprefixed
  kFile,     // the log file alone
  kTee,      // the log file, and the console with a prefix
};

/// `-r` and `-t` after parsing: the modes of each local rank's streams.
struct StreamsPlan {
  struct Modes {
    StreamMode out = StreamMode::kInherit;
    StreamMode err = StreamMode::kInherit;
    bool operator==(const Modes&) const = default;
  };
  Modes all;                                 // for ranks not in `by_rank`
  std::map<int, Modes> by_rank;              // local rank → modes
  std::optional<std::string> log_directory;  // --log-dir; none: a fresh one under $TMPDIR
  bool no_files = false;                   // --log-dir /dev/null: no file at all, streams inherited
  std::set<int> console_ranks;             // --local-ranks-filter; empty: all reach the console
  std::vector<std::string> duplicate_out;  // --duplicate-stdout-filters
  std::vector<std::string> duplicate_err;  // --duplicate-stderr-filters
  std::string prefix_template;             // with ${role_name}, ${rank}, ${local_rank}, ${hostname}

  const Modes& modes(int local_rank) const {
    const auto found = by_rank.find(local_rank);
    return found == by_rank.end() ? all : found->second;
  }
};

/// --leftover: what to do with processes that workers which exited with 0 left behind.
enum class LeftoverMode : std::uint8_t {
  kKill,
  kWait,  // until they have ended, or the limit has passed
  kKeep,  // they outlive ddprun
};

struct LeftoverPlan {
  LeftoverMode mode = LeftoverMode::kKill;
  Duration limit = std::chrono::minutes(10);  // of kWait
};

/// What every worker executes.
struct WorkerCommand {
  std::string program;                 // resolved: an absolute path, or a path with a slash
  std::vector<std::string> arguments;  // argv[1..], with ${local_rank} not yet replaced
  std::string interpreter;             // the Python that `program` is; empty: none
  std::string title;                   // what the failure report calls it, e.g. "train.py"
  std::string name;  // the same on all nodes of a job, whatever the directory (program_name.hpp)
  std::string text;  // as typed
  std::vector<std::string> wrap;  // --wrap: a program, resolved, and its arguments, before all
                                  // of that; with %n and its like (with_place). Empty: none
};

/// The launcher's part of the header of a job's log (header.hpp).
struct HeaderPlan {
  int gpus = 0;            // usable on this node
  std::string commit;      // GIT_COMMIT; empty: not set
  int slurm_restarts = 0;  // how often Slurm has restarted the job
};

/// One of several jobs side by side (--independent).
struct TaskPlan {
  std::int64_t id = 0;                // DDPRUN_TASK_ID
  std::optional<std::string> device;  // CUDA_VISIBLE_DEVICES; none: as it is
};

/// Whether this node is the first leader, and so listens where the others look for it.
enum class Bootstraps : std::uint8_t {
  kYes,          // static: node rank 0; c10d: is_host=true
  kNo,           // the other node ranks; is_host=false
  kIfItCanBind,  // c10d: once the endpoint is this machine's (own_endpoint.hpp), and its port
                 // is free
};

/// --bind: at which addresses of this machine a node listens.
struct BindPlan {
  enum class To : std::uint8_t {
    kAgreed,   // those at which the others reach it (listen_addresses.hpp)
    kAddress,  // `address`
    kAll,
  };
  To to = To::kAgreed;
  std::string address;  // numeric
};

/// How this node and the others find each other. Every timeout is on this node's own clock.
/// More than twelve members: each is a flag, or what was derived from several.
struct RendezvousPlan {
  static constexpr Duration kLeaseMin =
      std::chrono::milliseconds(500);  // several heartbeats must fit in
  static constexpr Duration kLeaseMax = std::chrono::hours(1);

  NodeRange nodes{1, 1};
  int expected = 0;                  // nodes that are known to come, spares included; 0: not known
  std::optional<int> node_rank;      // this node's slot, or the one that it prefers
  bool ranks_are_places = true;      // no two nodes may have the same rank
  std::optional<Endpoint> endpoint;  // of the first leader; none: a job of one node
  std::vector<std::uint16_t> other_ports;  // of that leader, if the endpoint's is taken
  std::vector<std::uint16_t> refusal_ports;
  bool spares = false;  // more nodes than nodes.max() are intended: unneeded ones end with 0
  Bootstraps bootstraps = Bootstraps::kYes;
  // The endpoint was an address of this machine when the agent started.
  bool recognizes_endpoint = true;
  std::vector<std::string> endpoint_addresses;  // its numeric ones then; none: not known
  BindPlan bind;
  std::uint16_t listen_port = 0;  // where others reach this node if it leads later; 0: a free port
  std::string local_address;      // numeric, for the others; empty: the source of our connections
  AuthChoice auth = AuthChoice::kAuto;               // how nodes prove that they may take part
  std::string secret;                                // known to all nodes; empty: none
  Duration lease = std::chrono::seconds(3);          // for workers without news from the leader
  Duration join_timeout = std::chrono::minutes(10);  // to get nodes.min()
  std::optional<Duration> regather_timeout;  // to get them again after a round; none: join_timeout
  Duration last_call = std::chrono::seconds(30);  // for more than nodes.min(), first round only
  bool trusts_reset = true;                       // the end of a lifeline proves a death
  bool trusts_replacement = false;  // a node under another's name or rank proves its death
  std::string fence_directory;      // absolute, shared by all nodes; empty: none

  bool has_others() const { return endpoint.has_value(); }
  /// Whether a new leader needs a file in fence_directory.
  bool has_fence() const { return has_others() && !fence_directory.empty(); }
};

/// What to do after a preemption notice (contract::is_notice).
struct NoticePlan {
  std::optional<int> forward;       // what workers are sent; none: the signal that came
  std::optional<Duration> grace;    // from a notice to SIGKILL; none: as long as Slurm leaves
  int exit_status = kExitTryAgain;  // of a job whose workers have all saved
  // What Slurm leaves, as far as known; for people and workers, ddprun itself does not wait for it.
  std::optional<Duration> kill_wait;    // from SIGTERM to SIGKILL, at least
  std::optional<std::int64_t> job_end;  // seconds since 1970
};

/// --memory-log: samples of what the workers and the GPUs of this node use.
struct MemoryLogPlan {
  static constexpr Duration kIntervalMin = std::chrono::milliseconds(100);
  static constexpr Duration kIntervalMax = std::chrono::hours(1);

  std::string directory;  // empty: nothing is sampled
  Duration interval = std::chrono::seconds(5);
  bool wants_gpus = false;  // warn if they cannot be sampled
};

/// --node-check: a program whose exit status decides whether this node is fit to run workers.
struct NodeCheckPlan {
  std::vector<std::string> arguments;  // the program, resolved, and its arguments; empty: no check
  std::string text;                    // as given, for people
  Duration limit = std::chrono::seconds(60);  // a node whose check takes longer is unfit
};

/// --hang-timeout and --on-hang: when training is taken for hung (hang_watch.hpp), and what
/// follows.
struct HangPlan {
  bool is_watched = true;                        // not `off`
  std::optional<Duration> limit = std::nullopt;  // without a step; none: `auto`
  bool restarts = false;                         // end the workers that hang
};

/// One node's part of a job. More than twelve members: each is something that a user may decide, or
/// that this machine or Slurm has decided.
struct LaunchPlan {
  std::string run_id;                      // --rdzv-id; else random, or "none" with several nodes
  std::string role = "default";            // --role
  int workers = 1;                         // on this node, >= 1
  int max_restarts = 0;                    // of the whole job, >= 0
  std::optional<Duration> restart_window;  // --restart-window: the budget refills after this long
  bool needs_progress = false;  // --restart-policy progress: two crashes alike end the job
  Duration shutdown_timeout = std::chrono::seconds(30);  // from the stop signal to SIGKILL
  LeftoverPlan leftovers;                                // --leftover
  NodeCheckPlan node_check;
  std::vector<int> signals_to_handle;  // end the job, and are passed to workers
  std::string signals_text;            // as given, for TORCHELASTIC_SIGNALS_TO_HANDLE
  RendezvousPlan rendezvous;
  std::string master_address = "127.0.0.1";  // empty: the address by which others reach this node
  std::optional<std::uint16_t> master_port;  // of a job of one node; none: a free port
  bool shared_store = true;  // false: rank 0 hosts its own (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
  bool virtual_local_rank = false;
  NoticePlan notice;
  std::string slurm_step;  // "812.0": a signal to this node means the whole job; empty: no step
  std::string slurm_job;   // of that step: "812", "812_step1"
  std::string batch_host;  // runs the job's batch script, and srun; empty: there is none
  bool step_has_all_nodes = false;  // the job has no nodes outside of it
  bool is_whole_step = false;       // the same, and the user did not say how many nodes the job has
  // All nodes of the job have the same stderr: srun's. So one of them prints what concerns all.
  bool shares_console = false;
  bool shares_logs = false;  // other nodes write logs of the same name
  int usable_cpus = 1;       // usable here, by affinity and cgroup quota; decides OMP_NUM_THREADS
  // --numa-binding: the CPUs of each worker, by local rank; empty: ddprun's own.
  std::vector<std::set<int>> cpus;
  WorkerCommand command;
  std::string preload;  // --preload: what the fork server imports, "auto" or names; empty: none
  std::optional<int> debug_rank;  // this rank waits for SIGUSR1 before it begins
  std::optional<TaskPlan> task;
  std::optional<HeaderPlan> header;  // none: no header is printed
  StreamsPlan streams;
  bool has_torch_events = false;        // --event-log-handler console: torchrun's events on stderr
  std::string rdzv_backend = "static";  // as torchrun's events name it
  bool has_file_timer = false;          // TORCHELASTIC_ENABLE_FILE_TIMER=1: workers may set timers
  MemoryLogPlan memory_log;
  HangPlan hang;

  /// The name of the job among its nodes. Two steps may have the same run_id; they are one job only
  /// if they were told its number of nodes, and its endpoint.
  std::string job_among_nodes() const {
    const bool is_of_one_step = is_whole_step || !rendezvous.other_ports.empty();
    return is_of_one_step && slurm_job != run_id ? run_id + "@" + slurm_job : run_id;
  }
  /// The name of the job for people: Slurm's id if there is one, even if run_id is random.
  std::string job_for_people() const {
    if (slurm_job.empty()) return run_id;
    return task ? slurm_job + "_task" + std::to_string(task->id) : slurm_job;
  }
};

}  // namespace ddprun
