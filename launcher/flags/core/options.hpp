#pragma once

// The flags as typed values, before the machine is probed.

#include "agent/core/launch_plan.hpp"
#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "launcher/flags/core/flags.hpp"
#include "launcher/flags/core/numa.hpp"
#include "slurm/core/requeue.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// --nproc-per-node
struct WorkerCount {
  enum class By : std::uint8_t { kNumber, kCpus, kGpus, kAuto };
  static constexpr int kMax = 4096;

  By by = By::kNumber;
  int number = 1;
};

/// How the script is executed.
enum class Runs : std::uint8_t {
  kScript,   // by Python, unless the file is a program of another kind
  kModule,   // -m
  kProgram,  // --no-python
  kRunPath,  // --run-path
};

/// One stream option: rank → whether it covers stdout and stderr.
struct StreamChoice {
  int all = 0;                 // bit 0 stdout, bit 1 stderr
  std::map<int, int> by_rank;  // in a map, ranks that are not named have 0
};

/// A host that must be this machine, and what to do if it is not.
struct OwnHost {
  Given host;
  std::string remedy;
  bool may_be_unknown = false;  // its name may resolve later
};

/// Keys of --rdzv-conf that overlap with other flags.
struct RendezvousSettings {
  std::optional<bool> is_host;
  std::optional<Duration> join_timeout;
  std::optional<Duration> timeout;  // the name of join_timeout in the static backend
  std::optional<Duration> keep_alive_interval;
  std::optional<int> keep_alive_attempts;
};

struct Options {
  LaunchPlan plan;  // without the parts that depend on the machine
  WorkerCount workers;
  std::optional<int> all_workers;  // --num-processes: those of all nodes
  Runs runs = Runs::kScript;
  std::vector<std::string> rest;  // script and arguments, at least one

  std::optional<NumaBinding> numa_binding;

  std::optional<Given> grid;  // a file, of which one row goes before the arguments
  int independent = 0;        // jobs of one worker, side by side; 0: one job

  bool standalone = false;
  bool is_module = false;
  bool is_program = false;
  bool passes_local_rank = false;  // --no-use-env
  std::string backend = "static";
  std::optional<Given> endpoint;
  std::optional<Given> run_id;
  std::optional<Given> master_address;
  std::optional<std::uint16_t> master_port;
  std::optional<Given> local_address;    // --local-addr HOST
  std::optional<Given> local_interface;  // --local-addr iface:NAME, the name alone
  Requeue requeue = Requeue::kNo;
  bool has_grace = false;  // --shutdown-timeout was given
  RendezvousSettings settings;
  std::optional<Given> secret_file;
  std::optional<Given> fence_directory;
  StreamChoice redirects;
  StreamChoice tee;

  std::vector<OwnHost> own_hosts;
  std::vector<std::string> warnings;  // one line each
};

/// Fails with kInvalidArgument, naming flag or variable, value, reason and remedy.
Result<Options> read_options(const CommandLine& line, const Environment& environment);

/// Adds a warning for each output flag that has no effect: it names local ranks that do not exist,
/// filters a stream that is not tee'd, or sets the interval of samples that are not taken. They are
/// not errors: torchrun accepts them, and scripts use them with any number of workers. REQUIRES:
/// options.plan.workers is set.
void warn_of_no_effect(const CommandLine& line, Options& options);

// One for each row of the table.
namespace setters {

Result<void> nnodes(const Given& given, Options& options);
Result<void> nproc_per_node(const Given& given, Options& options);
Result<void> num_processes(const Given& given, Options& options);
Result<void> spares(const Given& given, Options& options);
Result<void> node_rank(const Given& given, Options& options);
Result<void> role(const Given& given, Options& options);
Result<void> module(const Given& given, Options& options);
Result<void> no_python(const Given& given, Options& options);
Result<void> run_path(const Given& given, Options& options);
Result<void> virtual_local_rank(const Given& given, Options& options);
Result<void> wrap(const Given& given, Options& options);
Result<void> grid(const Given& given, Options& options);
Result<void> debug_rank(const Given& given, Options& options);
Result<void> independent(const Given& given, Options& options);
Result<void> numa_binding(const Given& given, Options& options);
Result<void> standalone(const Given& given, Options& options);
Result<void> rdzv_backend(const Given& given, Options& options);
Result<void> rdzv_endpoint(const Given& given, Options& options);
Result<void> rdzv_id(const Given& given, Options& options);
Result<void> rdzv_conf(const Given& given, Options& options);
Result<void> master_addr(const Given& given, Options& options);
Result<void> master_port(const Given& given, Options& options);
Result<void> local_addr(const Given& given, Options& options);
Result<void> listen_port(const Given& given, Options& options);
Result<void> lease(const Given& given, Options& options);
Result<void> trust_reset(const Given& given, Options& options);
Result<void> trust_replacement(const Given& given, Options& options);
Result<void> secret_file(const Given& given, Options& options);
Result<void> fence_dir(const Given& given, Options& options);
Result<void> max_restarts(const Given& given, Options& options);
Result<void> restart_window(const Given& given, Options& options);
Result<void> restart_policy(const Given& given, Options& options);
Result<void> node_check(const Given& given, Options& options);
Result<void> node_check_timeout(const Given& given, Options& options);
Result<void> shutdown_timeout(const Given& given, Options& options);
Result<void> leftover(const Given& given, Options& options);
Result<void> forward_signal(const Given& given, Options& options);
Result<void> preempt_exit_code(const Given& given, Options& options);
Result<void> requeue(const Given& given, Options& options);
Result<void> signals_to_handle(const Given& given, Options& options);
Result<void> monitor_interval(const Given& given, Options& options);
Result<void> start_method(const Given& given, Options& options);
Result<void> exit_barrier_timeout(const Given& given, Options& options);
Result<void> no_use_env(const Given& given, Options& options);
Result<void> use_env(const Given& given, Options& options);
Result<void> log_dir(const Given& given, Options& options);
Result<void> redirects(const Given& given, Options& options);
Result<void> tee(const Given& given, Options& options);
Result<void> local_ranks_filter(const Given& given, Options& options);
Result<void> duplicate_stdout_filters(const Given& given, Options& options);
Result<void> duplicate_stderr_filters(const Given& given, Options& options);
Result<void> memory_log(const Given& given, Options& options);
Result<void> memory_log_interval(const Given& given, Options& options);
Result<void> log_line_prefix_template(const Given& given, Options& options);
Result<void> event_log_handler(const Given& given, Options& options);
Result<void> logs_specs(const Given& given, Options& options);

}  // namespace setters

}  // namespace ddprun
