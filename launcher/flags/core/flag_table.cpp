// The rows of the table.

#include "launcher/flags/core/flags.hpp"
#include "launcher/flags/core/options.hpp"

#include <array>

namespace ddprun {
namespace {

constexpr std::string_view kJob = "The job";
constexpr std::string_view kWorkers = "Worker command";
constexpr std::string_view kRendezvous = "Rendezvous";
constexpr std::string_view kFailure = "Restarts and stopping";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kNothing = "Checked, without effect";
constexpr std::string_view kAbout = "About ddprun";

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kFlags = {
    Flag{kJob, "nproc-per-node", 0, "N|cpu|gpu|auto", "1",
         "Workers on this node: a number, or one per usable CPU or GPU ('auto': GPUs, else CPUs). In a Slurm step the default is the step's GPUs on this node, else its CPUs.",
         true, setters::nproc_per_node},
    Flag{kJob, "nnodes", 0, "N|MIN:MAX", "1:1",
         "Nodes of the job; MIN:MAX with c10d only.", true, setters::nnodes, "num-machines"},
    Flag{kJob, "num-processes", 0, "N", "none",
         "Workers on all nodes together, as in Accelerate; instead of --nproc-per-node.", false,
         setters::num_processes},
    Flag{kJob, "spares", 0, "", "off",
         "Start more nodes than MAX on purpose: a node that never takes part exits with 0, not with 75.", true,
         setters::spares},
    Flag{kJob, "node-rank", 0, "N", "0",
         "This node's rank among the nodes. With c10d only a preference; 0 hosts an endpoint that no node recognizes.", true, setters::node_rank,
         "machine-rank"},
    Flag{kJob, "role", 0, "NAME", "default",
         "Role of the workers: ROLE_NAME, and part of the console prefix.", true, setters::role},
    Flag{kJob, "virtual-local-rank", 0, "", "off",
         "Give every worker LOCAL_RANK=0 and one entry of CUDA_VISIBLE_DEVICES.", true,
         setters::virtual_local_rank},
    Flag{kJob, "independent", 0, "N", "none",
         "Run N jobs of one worker and one GPU each side by side on this node, with DDPRUN_TASK_ID.", true,
         setters::independent},

    Flag{kWorkers, "module", 'm', "", "off", "The script is a Python module: python -u -m script.", true,
         setters::module},
    Flag{kWorkers, "no-python", 0, "", "off", "The script is a program, looked up on PATH.",
         true, setters::no_python},
    Flag{kWorkers, "run-path", 0, "", "off",
         "Run the script by runpy.run_path in a fresh interpreter that writes the error file itself.",
         true, setters::run_path},
    Flag{kWorkers, "no-use-env", 0, "", "off",
         "Pass --local_rank=R as the script's first argument, as torch.distributed.launch does without --use-env.", false,
         setters::no_use_env},
    Flag{kWorkers, "wrap", 0, "COMMAND", "none",
         "Run each worker through this command, without a shell: 'env MARK=%n_%r'. %n node rank, %r rank, %l local rank, %w world size, %j job id.",
         true, setters::wrap},
    Flag{kWorkers, "grid", 0, "FILE", "none",
         "Insert a row of this file before the script's arguments: row SLURM_ARRAY_TASK_ID, counted from 1.", true,
         setters::grid},
    Flag{kWorkers, "debug-rank", 0, "RANK", "none",
         "This rank prints its pid and waits for SIGUSR1 before it starts, so that a debugger can be attached.", true,
         setters::debug_rank},
    Flag{kWorkers, "numa-binding", 0, "node|socket|exclusive|core-complex", "none",
         "Bind each worker to CPUs near its GPU; without GPUs, spread the workers over the NUMA nodes.", true,
         setters::numa_binding},

    Flag{kRendezvous, "standalone", 0, "", "off",
         "One node with a random id and a free port; overrides --rdzv-backend, --rdzv-endpoint and --rdzv-id.", true,
         setters::standalone},
    Flag{kRendezvous, "rdzv-backend", 0, "static|c10d", "static",
         "First leader: node rank 0 (static), or the node that owns the endpoint's address (c10d).", true,
         setters::rdzv_backend},
    Flag{kRendezvous, "rdzv-endpoint", 0, "HOST[:PORT]", "none",
         "Where the first leader listens; default port 29400. On one node, an address of that node; port 0: a free one.",
         true, setters::rdzv_endpoint},
    Flag{kRendezvous, "rdzv-id", 0, "ID", "random",
         "Job id: TORCHELASTIC_RUN_ID, and the name of the log directory. With several nodes the default is 'none'.",
         true, setters::rdzv_id},
    Flag{kRendezvous, "rdzv-conf", 0, "K=V,...", "none", "Rendezvous settings, such as join_timeout=600,last_call_timeout=30.",
         true, setters::rdzv_conf},
    Flag{kRendezvous, "master-addr", 0, "HOST", "127.0.0.1",
         "Host of node rank 0. On one node: MASTER_ADDR, an address of that node.", true, setters::master_addr,
         "main-process-ip"},
    Flag{kRendezvous, "master-port", 0, "PORT", "a free one",
         "MASTER_PORT: where the first leader and its store listen. With several nodes the default is 29500.", true,
         setters::master_port, "main-process-port"},
    Flag{kRendezvous, "local-addr", 0, "HOST|iface:NAME", "none",
         "This node's address for the other nodes, and MASTER_ADDR while it leads.", true, setters::local_addr},
    Flag{kRendezvous, "listen-port", 0, "PORT", "a free one",
         "Where this node listens for the others if it becomes leader later.", true, setters::listen_port},
    Flag{kRendezvous, "lease", 0, "SECONDS", "3", "A node that is silent for this long is lost; 0.5 to 3600.", true,
         setters::lease},
    Flag{kRendezvous, "trust-reset", 0, "on|off", "on",
         "Whether a closed lifeline proves that a node is dead. off: it is lost only when its lease expires.", true,
         setters::trust_reset},
    Flag{kRendezvous, "trust-replacement", 0, "on|off", "off",
         "Whether a node that starts with the host name or rank of a silent node proves that node dead.", true,
         setters::trust_replacement},
    Flag{kRendezvous, "secret-file", 0, "FILE", "none",
         "Secret with which nodes authenticate each other; also DDPRUN_SECRET_FILE or DDPRUN_SECRET.", true,
         setters::secret_file},
    Flag{kRendezvous, "fence-dir", 0, "DIR", "none",
         "Directory that all nodes share: if a job splits into halves, the half that first creates a file there continues.", true,
         setters::fence_dir},

    Flag{kFailure, "max-restarts", 0, "N", "0", "How often the job's workers may be restarted after a failure.",
         true, setters::max_restarts},
    Flag{kFailure, "restart-window", 0, "SECONDS", "none",
         "The restart budget refills after this long without a failure.", true, setters::restart_window},
    Flag{kFailure, "restart-policy", 0, "always|progress", "always",
         "progress: no restart after two attempts in a row failed alike within 5 s, before any worker reached the store.",
         true, setters::restart_policy},
    Flag{kFailure, "node-check", 0, "COMMAND", "none",
         "Command that a node must pass before it takes part and after a failure that began on it. A node that fails it, or on which three failures in an hour began, stands by if enough others remain.",
         true, setters::node_check},
    Flag{kFailure, "node-check-timeout", 0, "SECONDS", "60",
         "A --node-check that takes longer has failed.", true, setters::node_check_timeout},
    Flag{kFailure, "shutdown-timeout", 0, "SECONDS", "30",
         "Time from the stop signal to SIGKILL; also TORCH_ELASTIC_SHUTDOWN_TIMEOUT.", true,
         setters::shutdown_timeout},
    Flag{kFailure, "leftover", 0, "kill|wait|wait=SECONDS|keep", "kill",
         "What to do with processes that workers left behind after exiting with 0: kill them, wait for them (default 600 s), or keep them running.",
         true, setters::leftover},
    Flag{kFailure, "forward-signal", 0, "SIGNAL", "the one that came",
         "Signal sent to workers when SIGTERM, or in a Slurm step SIGUSR1 or SIGUSR2, tells the job to save and end.",
         true, setters::forward_signal},
    Flag{kFailure, "preempt-exit-code", 0, "N", "75", "Exit status if all workers have saved after that signal.",
         true, setters::preempt_exit_code},
    Flag{kFailure, "requeue", 0, "never|on-preempt|always", "never",
         "When to ask Slurm to start the job again: if that may help, or after any failure.", true,
         setters::requeue},
    Flag{kFailure, "signals-to-handle", 0, "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
         "Signals that end the job and are passed to the workers.", true, setters::signals_to_handle},

    Flag{kOutput, "log-dir", 0, "DIR", "a fresh one under $TMPDIR",
         "Directory for logs and error files; nothing in it is ever removed. /dev/null: no files.", true,
         setters::log_dir},
    Flag{kOutput, "redirects", 'r', "0-3|RANK:0-3,...", "0",
         "Streams to log files: 1 stdout, 2 stderr, 3 both, or a map by local rank.", true, setters::redirects},
    Flag{kOutput, "tee", 't', "0-3|RANK:0-3,...", "0", "Streams to log files and to the console.", true,
         setters::tee},
    Flag{kOutput, "local-ranks-filter", 0, "RANKS", "all",
         "Show only these local ranks on the console, such as 0,3.", true, setters::local_ranks_filter},
    Flag{kOutput, "duplicate-stdout-filters", 0, "TEXTS", "none",
         "Also write tee'd lines that contain one of these texts to filtered_stdout.log; ',,' stands for a comma.", true,
         setters::duplicate_stdout_filters},
    Flag{kOutput, "duplicate-stderr-filters", 0, "TEXTS", "none",
         "The same for stderr and filtered_stderr.log.", true, setters::duplicate_stderr_filters},
    Flag{kOutput, "memory-log", 0, "DIR", "none",
         "Write samples of memory and GPU use to files below DIR, for ddpctl analyze-memory.", true,
         setters::memory_log},
    Flag{kOutput, "memory-log-interval", 0, "SECONDS", "5", "Time between samples of --memory-log; 0.1 to 3600.",
         true, setters::memory_log_interval},
    Flag{kOutput, "log-line-prefix-template", 0, "TEXT", "[${role_name}${local_rank}]:",
         "Prefix of tee'd lines, with ${role_name}, ${local_rank}, ${rank} and ${hostname}; also TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE.", true,
         setters::log_line_prefix_template},
    Flag{kOutput, "event-log-handler", 0, "null|console|dynamic_rendezvous", "null",
         "console: write torchrun's own events to stderr as JSON lines. events.jsonl in the log directory is always written.", true,
         setters::event_log_handler},

    Flag{kNothing, "monitor-interval", 0, "SECONDS", "0.1", "ddprun does not poll: the end of a process is an event.", true,
         setters::monitor_interval},
    Flag{kNothing, "start-method", 0, "spawn|fork|forkserver", "spawn", "Each worker is always a newly executed process.",
         true, setters::start_method},
    Flag{kNothing, "exit-barrier-timeout", 0, "SECONDS", "300", "There is no exit barrier.", true,
         setters::exit_barrier_timeout},
    Flag{kNothing, "logs-specs", 0, "default", "default", "Other values name Python plug-ins and are refused.", false,
         setters::logs_specs},
    Flag{kNothing, "use-env", 0, "", "on", "LOCAL_RANK is always in the environment.", false, setters::use_env},

    Flag{kAbout, "help", 'h', "", "", "Print this text.", false, nullptr},
    Flag{kAbout, "print-completion", 0, "bash|zsh", "", "Print a script that completes ddprun's options in that shell.", false, nullptr},
    Flag{kAbout, "version", 0, "", "", "Print the version.", false, nullptr},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> all_flags() {
  return kFlags;
}

}  // namespace ddprun
