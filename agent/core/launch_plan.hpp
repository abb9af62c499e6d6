#pragma once

// What the command line asks of one node, as values that cannot be wrong: launcher/ makes a
// LaunchPlan, agent/ carries it out. Nothing behind this line reads a flag or a PET_ variable.

#include "base/time.hpp"

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

/// `-r` and `-t` after parsing: what each local rank's streams do.
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
  std::string prefix_template;             // with ${role_name}, ${rank}, ${local_rank}

  const Modes& modes(int local_rank) const {
    const auto found = by_rank.find(local_rank);
    return found == by_rank.end() ? all : found->second;
  }
};

/// What every worker executes.
struct WorkerCommand {
  std::string program;                 // resolved: an absolute path, or a path with a slash
  std::vector<std::string> arguments;  // argv[1..], with ${local_rank} not yet replaced
  std::string title;                   // what the failure report calls it, e.g. "train.py"
};

/// One node's part of a job.
struct LaunchPlan {
  std::string run_id;                      // --rdzv-id, or a random one
  std::string role = "default";            // --role
  int workers = 1;                         // on this node, >= 1
  int max_restarts = 0;                    // of the whole job, >= 0
  std::optional<Duration> restart_window;  // --restart-window: the budget refills after this long
  Duration shutdown_timeout = std::chrono::seconds(30);  // from the stop signal to SIGKILL
  std::vector<int> signals_to_handle;                    // end the job, and are passed to workers
  std::string signals_text;  // as given, for TORCHELASTIC_SIGNALS_TO_HANDLE
  std::string master_address = "127.0.0.1";
  std::optional<std::uint16_t> master_port;  // none: a free one
  bool shared_store = true;  // false: rank 0 hosts its own (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
  bool virtual_local_rank = false;
  int usable_cpus = 1;  // here, by affinity and cgroup quota; OMP_NUM_THREADS is made of it
  WorkerCommand command;
  StreamsPlan streams;
};

}  // namespace ddprun
