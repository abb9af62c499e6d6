// The flags of the job and of the command of its workers.

#include "agent/core/worker_environment.hpp"
#include "base/node_range.hpp"
#include "launcher/flags/core/arguments.hpp"
#include "launcher/flags/core/shared_setters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kJob = "The job";
constexpr std::string_view kWorkers = "Worker command";

Result<void> nproc_per_node(const Given& given, Options& options) {
  using By = WorkerCount::By;
  const std::string& text = given.text;
  if (text == "cpu") options.workers = {.by = By::kCpus, .number = 0};
  if (text == "gpu") options.workers = {.by = By::kGpus, .number = 0};
  if (text == "auto") options.workers = {.by = By::kAuto, .number = 0};
  if (text == "cpu" || text == "gpu" || text == "auto") return {};
  if (text == "xpu") return invalid_argument("ddprun cannot count XPUs; give their number");
  const auto number = parse_int<int>(text);
  if (!number || *number < 1 || *number > WorkerCount::kMax) {
    return invalid_argument("expected a number from 1 to {}, cpu, gpu or auto", WorkerCount::kMax);
  }
  options.workers = {.by = By::kNumber, .number = *number};
  return {};
}

Result<void> nnodes(const Given& given, Options& options) {
  const auto range = NodeRange::parse(given.text);
  if (!range) return range.error();
  options.plan.rendezvous.nodes = *range;
  return {};
}

Result<void> num_processes(const Given& given, Options& options) {
  const auto number = parse_int<int>(given.text);
  if (!number || *number < 1) return invalid_argument("expected a number of at least 1");
  options.all_workers = number;
  return {};
}

Result<void> node_rank(const Given& given, Options& options) {
  const auto rank = parse_int<int>(given.text);
  if (!rank || *rank < 0) return invalid_argument("expected a whole number of at least 0");
  options.plan.rendezvous.node_rank = rank;
  return {};
}

Result<void> role(const Given& given, Options& options) {
  if (given.text.empty()) return invalid_argument("expected a name; leave it out for 'default'");
  options.plan.role = given.text;
  return {};
}

Result<void> run_path(const Given& /*given*/, Options& options) {
  options.runs = Runs::kRunPath;
  return {};
}

Result<void> wrap(const Given& given, Options& options) {
  auto arguments = split_arguments(given.text);
  if (!arguments) return arguments.error();
  if (arguments->empty() || arguments->front().empty()) {
    return invalid_argument(
        "expected a program and its arguments, such as 'numactl --cpunodebind=%l'");
  }
  if (arguments->front().find('%') != std::string::npos) {
    return invalid_argument("the program is the same for all ranks; use % in its arguments only");
  }
  for (const std::string& argument : *arguments) {
    if (const auto unknown = unknown_placeholder(argument)) {
      return invalid_argument(
          "unknown placeholder '{}'; expected %n (node rank), %r (rank), %l (local rank), %w "
          "(world "
          "size), %j (job id), or %% (a percent sign)",
          *unknown);
    }
  }
  options.plan.command.wrap = *std::move(arguments);
  return {};
}

Result<void> grid(const Given& given, Options& options) {
  if (given.text.empty()) return invalid_argument("expected a file; leave it out for no grid");
  options.grid = given;
  return {};
}

Result<void> debug_rank(const Given& given, Options& options) {
  const auto rank = parse_int<int>(given.text);
  if (!rank || *rank < 0) return invalid_argument("expected a rank, a number of at least 0");
  options.plan.debug_rank = rank;
  return {};
}

bool is_module_name(std::string_view text) {
  const auto is_of_name = [](char byte) {
    return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_' ||
           static_cast<unsigned char>(byte) >= 0x80;
  };
  const auto parts = split(text, '.');
  return std::ranges::all_of(parts, [&](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, is_of_name) &&
           std::isdigit(static_cast<unsigned char>(part.front())) == 0;
  });
}

Result<void> preload(const Given& given, Options& options) {
  const auto names = split(given.text, ',');
  if (!std::ranges::all_of(names, is_module_name)) {
    return invalid_argument("expected auto, or modules such as torch,torchvision");
  }
  options.plan.preload = given.text;
  return {};
}

/// Applied after --preload, by the order of the table.
Result<void> start_method(const Given& given, Options& options) {
  const bool known = given.text == "spawn" || given.text == "fork" || given.text == "forkserver";
  if (!known) return invalid_argument("expected spawn, fork or forkserver");
  std::string& preload = options.plan.preload;
  if (given.text == "forkserver") {
    if (preload.empty()) preload = "auto";
  } else if (!preload.empty()) {
    options.warnings.push_back(fmt::format(
        "{} '{}': each worker is executed, so --preload '{}' has no effect",
        given.source,
        given.text,
        preload));
    preload.clear();
  }
  return {};
}

Result<void> numa_binding(const Given& given, Options& options) {
  options.numa_binding = parse_numa_binding(given.text);
  if (!options.numa_binding)
    return invalid_argument("expected node, socket, exclusive or core-complex");
  return {};
}

// clang-format off
// NOLINTBEGIN(modernize-use-designated-initializers): a table; the columns are those of Flag
constexpr std::array kJobFlags = {
    Flag{kJob, "nproc-per-node", 0, "N|cpu|gpu|auto", "1",
         "Workers on this node: a number, or one per usable CPU or GPU ('auto': GPUs, else CPUs). In a Slurm step the default is the step's GPUs on this node, else its CPUs.",
         true, nproc_per_node},
    Flag{kJob, "nnodes", 0, "N|MIN:MAX", "1:1",
         "Nodes of the job; MIN:MAX with c10d only.", true, nnodes, "num-machines"},
    Flag{kJob, "num-processes", 0, "N", "none",
         "Workers on all nodes together, as in Accelerate; instead of --nproc-per-node.", false,
         num_processes},
    Flag{kJob, "spares", 0, "", "off",
         "Start more nodes than MAX on purpose: a node that never takes part exits with 0, not with 75.", true,
         turn_on<&Options::plan, &LaunchPlan::rendezvous, &RendezvousPlan::spares>},
    Flag{kJob, "node-rank", 0, "N", "0",
         "This node's rank among the nodes. With c10d only a preference (not with --trust-replacement); 0 hosts an endpoint that no node recognizes.", true, node_rank,
         "machine-rank"},
    Flag{kJob, "role", 0, "NAME", "default",
         "Role of the workers: ROLE_NAME, and part of the console prefix.", true, role},
    Flag{kJob, "virtual-local-rank", 0, "", "off",
         "Give every worker LOCAL_RANK=0 and one entry of CUDA_VISIBLE_DEVICES.", true,
         turn_on<&Options::plan, &LaunchPlan::virtual_local_rank>},
    Flag{kJob, "independent", 0, "N", "none",
         "Run N jobs of one worker and one GPU each side by side on this node, with DDPRUN_TASK_ID.", true,
         number<1, WorkerCount::kMax, &Options::independent>},
    Flag{kWorkers, "module", 'm', "", "off", "The script is a Python module: python -u -m script.", true,
         turn_on<&Options::is_module>},
    Flag{kWorkers, "no-python", 0, "", "off", "The script is a program, looked up on PATH.",
         true, turn_on<&Options::is_program>},
    Flag{kWorkers, "run-path", 0, "", "off",
         "Run the script by runpy.run_path in a fresh interpreter that writes the error file itself.",
         true, run_path},
    Flag{kWorkers, "no-use-env", 0, "", "off",
         "Pass --local_rank=R as the script's first argument, as torch.distributed.launch does without --use-env.", false,
         turn_on<&Options::passes_local_rank>},
    Flag{kWorkers, "wrap", 0, "COMMAND", "none",
         "Run each worker through this command, without a shell: 'env MARK=%n_%r'. %n node rank, %r rank, %l local rank, %w world size, %j job id.",
         true, wrap},
    Flag{kWorkers, "grid", 0, "FILE", "none",
         "Insert a row of this file before the script's arguments: row SLURM_ARRAY_TASK_ID, counted from 1.", true,
         grid},
    Flag{kWorkers, "preload", 0, "auto|MODULES", "none",
         "Import these Python modules once, in a process that forks the workers. 'auto': what the script imports, of packages known to be safe.", true,
         preload},
    Flag{kWorkers, "start-method", 0, "spawn|fork|forkserver", "spawn",
         "How workers are made. 'forkserver': forked, with --preload auto unless it is given; else executed.", true,
         start_method},
    Flag{kWorkers, "debug-rank", 0, "RANK", "none",
         "This rank prints its pid and waits for SIGUSR1 before it starts, so that a debugger can be attached.", true,
         debug_rank},
    Flag{kWorkers, "numa-binding", 0, "node|socket|exclusive|core-complex", "none",
         "Bind each worker to CPUs near its GPU; without GPUs, spread the workers over the NUMA nodes.", true,
         numa_binding},
};
// NOLINTEND(modernize-use-designated-initializers)
// clang-format on

}  // namespace

std::span<const Flag> job_flags() {
  return kJobFlags;
}

}  // namespace ddprun
