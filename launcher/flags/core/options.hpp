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

/// An address of this machine, as it was given: HOST or iface:NAME.
struct HostOrInterface {
  Given named;  // the host, or the name of the interface
  bool is_interface = false;

  /// Null: it is an interface.
  const Given* host() const { return is_interface ? nullptr : &named; }
};

/// Keys of --rdzv-conf that overlap with other flags.
struct RendezvousSettings {
  std::optional<bool> is_host;
  std::optional<Duration> join_timeout;
  std::optional<Duration> timeout;  // the name of join_timeout in the static backend
  std::optional<Duration> keep_alive_interval;
  std::optional<int> keep_alive_attempts;
};

/// What flags and variables say, before anything is known of the machine. More than twelve members:
/// each is a flag of which the plan has only what follows from it.
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
  std::optional<HostOrInterface> local_address;  // --local-addr
  std::optional<HostOrInterface> bind;           // --bind, unless it is agreed or all
  Requeue requeue = Requeue::kNo;
  bool has_grace = false;  // --shutdown-timeout was given
  RendezvousSettings settings;
  std::optional<Given> auth;  // as it was given; plan.rendezvous has the value
  std::optional<Given> secret_file;
  std::optional<Given> fence_directory;
  StreamChoice redirects;
  StreamChoice tee;

  std::vector<OwnHost> own_hosts;
  std::vector<std::string> warnings;  // one line each
};

/// Fails with kInvalidArgument, naming flag or variable, value, reason and remedy.
Result<Options> read_options(const CommandLine& line, const Environment& environment);

/// Sets plan.rendezvous, the id, and MASTER_ADDR and its port from the flags, which overlap: which
/// node bootstraps, where, and which hosts must be this machine (options.own_hosts). REQUIRES:
/// every flag of `line` was applied. Fails with kInvalidArgument if flags contradict each other or
/// do not say where several nodes find each other.
Result<void> plan_rendezvous(const CommandLine& line, Options& options);

/// Adds a warning for each output flag that has no effect: it names local ranks that do not exist,
/// filters a stream that is not tee'd, or sets the interval of samples that are not taken. They are
/// not errors: torchrun accepts them, and scripts use them with any number of workers. REQUIRES:
/// options.plan.workers is set.
void warn_of_no_effect(const CommandLine& line, Options& options);

}  // namespace ddprun
