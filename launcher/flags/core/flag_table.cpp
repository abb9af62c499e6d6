// The table itself.

#include "launcher/flags/core/flags.hpp"
#include "launcher/flags/core/options.hpp"

#include <array>

namespace ddprun {
namespace {

constexpr std::string_view kJob = "The job";
constexpr std::string_view kWorkers = "What the workers run";
constexpr std::string_view kRendezvous = "Where they meet";
constexpr std::string_view kFailure = "Restarts and stopping";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kNothing = "Checked, without effect";
constexpr std::string_view kAbout = "About ddprun";

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kFlags = {
    Flag{kJob, "nproc-per-node", 0, "N|cpu|gpu|auto", "1",
         "Workers on this node: a number, one for each usable CPU or GPU, or 'auto': GPUs, else CPUs. Within srun the default is the GPUs of the step on this node, else its CPUs.",
         true, setters::nproc_per_node},
    Flag{kJob, "nnodes", 0, "N|MIN:MAX", "1:1",
         "Nodes of the job, or from MIN to MAX (c10d).", true, setters::nnodes, "num-machines"},
    Flag{kJob, "num-processes", 0, "N", "none",
         "Workers of all nodes together, as Accelerate counts them; in place of --nproc-per-node.", false,
         setters::num_processes},
    Flag{kJob, "spares", 0, "", "off",
         "More nodes than MAX are meant: one that never takes part in the job ends with 0, and not with 75.", true,
         setters::spares},
    Flag{kJob, "node-rank", 0, "N", "0",
         "This node's place among the nodes; with c10d a wish, and 0 hosts an endpoint that no node recognizes.", true, setters::node_rank,
         "machine-rank"},
    Flag{kJob, "role", 0, "NAME", "default",
         "The workers' role: ROLE_NAME, and the prefix of their lines on the console.", true, setters::role},
    Flag{kJob, "virtual-local-rank", 0, "", "off",
         "Every worker sees LOCAL_RANK=0 and one device, by CUDA_VISIBLE_DEVICES.", true,
         setters::virtual_local_rank},
    Flag{kJob, "independent", 0, "N", "none",
         "N jobs of one worker each, side by side on this node, with a GPU each and DDPRUN_TASK_ID.", true,
         setters::independent},

    Flag{kWorkers, "module", 'm', "", "off", "The script is a Python module: python -u -m script.", true,
         setters::module},
    Flag{kWorkers, "no-python", 0, "", "off", "The script is a program, looked up on PATH, run as it is.",
         true, setters::no_python},
    Flag{kWorkers, "run-path", 0, "", "off",
         "Run the script by runpy.run_path in a fresh interpreter that writes the error file itself.",
         true, setters::run_path},
    Flag{kWorkers, "no-use-env", 0, "", "off",
         "The script's first argument is --local_rank=R, as from torch.distributed.launch without --use-env.", false,
         setters::no_use_env},
    Flag{kWorkers, "wrap", 0, "COMMAND", "none",
         "Run each worker by this, without a shell: 'env MARK=%n_%r'. %n node rank, %r rank, %l local rank, %w world size, %j job id.",
         true, setters::wrap},
    Flag{kWorkers, "grid", 0, "FILE", "none",
         "A line of it stands before the script's arguments: the one that SLURM_ARRAY_TASK_ID says, from 1 on.", true,
         setters::grid},
    Flag{kWorkers, "debug-rank", 0, "RANK", "none",
         "This rank tells its pid and begins when SIGUSR1 comes, so that a debugger can be attached.", true,
         setters::debug_rank},
    Flag{kWorkers, "numa-binding", 0, "node|socket|exclusive|core-complex", "none",
         "Bind each worker to CPUs near its GPU, or without GPUs spread the workers over the NUMA nodes.", true,
         setters::numa_binding},

    Flag{kRendezvous, "standalone", 0, "", "off",
         "One node with a random id and a free port; overrides --rdzv-backend, --rdzv-endpoint and --rdzv-id.", true,
         setters::standalone},
    Flag{kRendezvous, "rdzv-backend", 0, "static|c10d", "static",
         "How nodes meet: node rank 0 leads first, or whoever the endpoint belongs to.", true,
         setters::rdzv_backend},
    Flag{kRendezvous, "rdzv-endpoint", 0, "HOST[:PORT]", "none",
         "Where the first leader listens; port 29400 if left out. On one node an address of it; 0: a free port.",
         true, setters::rdzv_endpoint},
    Flag{kRendezvous, "rdzv-id", 0, "ID", "random",
         "The job's id: TORCHELASTIC_RUN_ID, and the log directory. On several nodes the default is none.",
         true, setters::rdzv_id},
    Flag{kRendezvous, "rdzv-conf", 0, "K=V,...", "none", "Settings of the rendezvous, such as join_timeout=600,last_call_timeout=30.",
         true, setters::rdzv_conf},
    Flag{kRendezvous, "master-addr", 0, "HOST", "127.0.0.1",
         "Host of node rank 0. On one node MASTER_ADDR, an address of this machine.", true, setters::master_addr,
         "main-process-ip"},
    Flag{kRendezvous, "master-port", 0, "PORT", "a free one",
         "MASTER_PORT, where the first leader's store listens. On several nodes the default is 29500.", true,
         setters::master_port, "main-process-port"},
    Flag{kRendezvous, "local-addr", 0, "HOST|iface:NAME", "none",
         "This node's address for the others, and MASTER_ADDR where it leads.", true, setters::local_addr},
    Flag{kRendezvous, "listen-port", 0, "PORT", "a free one",
         "Where this node listens for the others if it comes to lead later.", true, setters::listen_port},
    Flag{kRendezvous, "lease", 0, "SECONDS", "3", "A node that is silent for so long is lost; 0.5 to 3600.", true,
         setters::lease},
    Flag{kRendezvous, "trust-reset", 0, "on|off", "on",
         "Whether the end of a node's lifeline proves its death. Off: it is lost by its lease alone.", true,
         setters::trust_reset},
    Flag{kRendezvous, "trust-replacement", 0, "on|off", "off",
         "Whether a node that starts under the host name or rank of a silent one proves that one's death.", true,
         setters::trust_replacement},
    Flag{kRendezvous, "secret-file", 0, "FILE", "none",
         "A secret that nodes prove to each other. DDPRUN_SECRET_FILE or DDPRUN_SECRET do the same.", true,
         setters::secret_file},
    Flag{kRendezvous, "fence-dir", 0, "DIR", "none",
         "A directory that all nodes share: if a job splits in halves, the one that makes a file there goes on.", true,
         setters::fence_dir},

    Flag{kFailure, "max-restarts", 0, "N", "0", "How often the job's workers may be restarted after a failure.",
         true, setters::max_restarts},
    Flag{kFailure, "restart-window", 0, "SECONDS", "none",
         "The budget of restarts refills after this long without a failure.", true, setters::restart_window},
    Flag{kFailure, "restart-policy", 0, "always|progress", "always",
         "progress: no restart once two attempts in a row failed alike within 5 s, before any worker reached the store.",
         true, setters::restart_policy},
    Flag{kFailure, "node-check", 0, "COMMAND", "none",
         "Runs on a node before it takes part and after a failure that began there; a node where it fails, or three failures in an hour began, stands by while others suffice.",
         true, setters::node_check},
    Flag{kFailure, "node-check-timeout", 0, "SECONDS", "60",
         "A node whose --node-check takes longer has failed it.", true, setters::node_check_timeout},
    Flag{kFailure, "shutdown-timeout", 0, "SECONDS", "30",
         "From the stop signal to SIGKILL. TORCH_ELASTIC_SHUTDOWN_TIMEOUT is its second variable.", true,
         setters::shutdown_timeout},
    Flag{kFailure, "leftover", 0, "kill|wait|wait=SECONDS|keep", "kill",
         "What becomes of processes that workers which exited with 0 left behind: killed, waited for (600 s unless given), or left to outlive ddprun.",
         true, setters::leftover},
    Flag{kFailure, "forward-signal", 0, "SIGNAL", "the one that came",
         "What workers are sent when SIGTERM, or in a Slurm step SIGUSR1 or SIGUSR2, tells the job to save and end.",
         true, setters::forward_signal},
    Flag{kFailure, "preempt-exit-code", 0, "N", "75", "The exit status where all workers have saved after that.",
         true, setters::preempt_exit_code},
    Flag{kFailure, "requeue", 0, "never|on-preempt|always", "never",
         "When Slurm is asked to start the job again: where that may help, or after any failure.", true,
         setters::requeue},
    Flag{kFailure, "signals-to-handle", 0, "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
         "Signals that end the job and are passed to the workers.", true, setters::signals_to_handle},

    Flag{kOutput, "log-dir", 0, "DIR", "a fresh one under $TMPDIR",
         "Where logs and error files go; nothing in it is ever removed. /dev/null: no files at all.", true,
         setters::log_dir},
    Flag{kOutput, "redirects", 'r', "0-3|RANK:0-3,...", "0",
         "Streams to log files: 1 stdout, 2 stderr, 3 both, or a map by local rank.", true, setters::redirects},
    Flag{kOutput, "tee", 't', "0-3|RANK:0-3,...", "0", "Streams to log files and to the console.", true,
         setters::tee},
    Flag{kOutput, "local-ranks-filter", 0, "RANKS", "all",
         "Only these local ranks reach the console, e.g. 0,3.", true, setters::local_ranks_filter},
    Flag{kOutput, "duplicate-stdout-filters", 0, "TEXTS", "none",
         "Tee'd lines with one of the texts also go to filtered_stdout.log; ',,' is a comma.", true,
         setters::duplicate_stdout_filters},
    Flag{kOutput, "duplicate-stderr-filters", 0, "TEXTS", "none",
         "The same for stderr and filtered_stderr.log.", true, setters::duplicate_stderr_filters},
    Flag{kOutput, "memory-log", 0, "DIR", "none",
         "What processes and GPUs take is written to files below DIR, for ddpctl analyze-memory.", true,
         setters::memory_log},
    Flag{kOutput, "memory-log-interval", 0, "SECONDS", "5", "From one sample of --memory-log to the next; 0.1 to 3600.",
         true, setters::memory_log_interval},
    Flag{kOutput, "log-line-prefix-template", 0, "TEXT", "[${role_name}${local_rank}]:",
         "What stands before a tee'd line, with ${role_name}, ${local_rank}, ${rank} and ${hostname}. TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE is its second variable.", true,
         setters::log_line_prefix_template},
    Flag{kOutput, "event-log-handler", 0, "null|console|dynamic_rendezvous", "null",
         "'console': torchrun's own events go to stderr, as JSON lines. events.jsonl in the log directory is written in any case.", true,
         setters::event_log_handler},

    Flag{kNothing, "monitor-interval", 0, "SECONDS", "0.1", "Nothing polls: a death is an event.", true,
         setters::monitor_interval},
    Flag{kNothing, "start-method", 0, "spawn|fork|forkserver", "spawn", "Workers are always executed anew.",
         true, setters::start_method},
    Flag{kNothing, "exit-barrier-timeout", 0, "SECONDS", "300", "There is no exit barrier.", true,
         setters::exit_barrier_timeout},
    Flag{kNothing, "logs-specs", 0, "default", "default", "Where logs go; others are Python plug-ins.", false,
         setters::logs_specs},
    Flag{kNothing, "use-env", 0, "", "on", "LOCAL_RANK is always in the environment.", false, setters::use_env},

    Flag{kAbout, "help", 'h', "", "", "This text.", false, nullptr},
    Flag{kAbout, "print-completion", 0, "bash|zsh", "", "A script for that shell which completes ddprun's options.", false, nullptr},
    Flag{kAbout, "version", 0, "", "", "The version of ddprun.", false, nullptr},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> all_flags() {
  return kFlags;
}

}  // namespace ddprun
