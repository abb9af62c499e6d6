#include "launcher/flags/options.hpp"

#include "agent/fence.hpp"
#include "base/file.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"
#include "launcher/flags/core/options.hpp"
#include "launcher/flags/core/slurm_flags.hpp"
#include "launcher/flags/core/tasks.hpp"
#include "launcher/flags/machine.hpp"
#include "launcher/flags/numa_topology.hpp"
#include "launcher/flags/secret.hpp"
#include "launcher/flags/task_plans.hpp"
#include "rendezvous/own_address.hpp"
#include "slurm/core/allocation.hpp"
#include "slurm/core/kill_wait.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::size_t kSlurmConfMax = 1 << 20;
constexpr auto kSlurmRegatherTimeout = std::chrono::seconds(30);

/// A random UUID, for a job without an id.
std::string random_id() {
  std::random_device chance;
  const auto bits = [&chance](std::uint32_t mask, std::uint32_t set) {
    return (static_cast<std::uint32_t>(chance()) & mask) | set;
  };
  return fmt::format(
      "{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}",
      bits(0xffffffff, 0),
      bits(0xffff, 0),
      bits(0x0fff, 0x4000),
      bits(0x3fff, 0x8000),
      bits(0xffff, 0),
      bits(0xffffffff, 0));
}

Result<int> count_workers(const WorkerCount& count, const Environment& environment, int cpus) {
  using By = WorkerCount::By;
  if (count.by == By::kNumber) return count.number;
  if (count.by == By::kCpus) return cpus;
  const int gpus = visible_gpus(environment);
  if (gpus > 0) return gpus;
  if (count.by == By::kAuto) return cpus;
  return invalid_argument(
      "--nproc-per-node 'gpu': no GPU is visible; check CUDA_VISIBLE_DEVICES, or give cpu, auto or "
      "a number");
}

/// With --virtual-local-rank each worker gets one entry of CUDA_VISIBLE_DEVICES.
Result<void> check_devices(const LaunchPlan& plan, const Environment& environment) {
  const auto devices = environment.find(contract::kCudaVisibleDevices);
  if (!plan.virtual_local_rank || devices == environment.end()) return {};
  const std::size_t entries = split(devices->second, ',').size();
  if (entries >= static_cast<std::size_t>(plan.workers)) return {};
  return invalid_argument(
      "--virtual-local-rank: CUDA_VISIBLE_DEVICES '{}' has fewer entries than the {} workers; "
      "lower --nproc-per-node or name more devices",
      devices->second,
      plan.workers);
}

/// The CPUs of each worker. If there are more workers than GPUs, the GPUs are not meant for them.
Result<void> bind_workers(Options& options, const Environment& environment) {
  if (!options.numa_binding) return {};
  const int workers = std::max(options.plan.workers, options.independent);
  const auto topology = read_numa_topology(*options.numa_binding, affine_cpus());
  if (!topology) return with_context("--numa-binding", topology.error());
  auto homes = numa_nodes_of_gpus(*topology, environment);
  if (!homes) return with_context("--numa-binding", homes.error());
  if (std::ssize(*homes) < workers) homes = spread_over_nodes(*topology, workers);
  auto cpus = bind_to_numa(*topology, *options.numa_binding, *homes, workers);
  if (!cpus) return with_context("--numa-binding", cpus.error());
  options.plan.cpus = *std::move(cpus);
  return {};
}

/// Fails unless `own` is this machine, or its name may still resolve to it later.
Result<void> check_own_host(const OwnHost& own) {
  const auto& [host, remedy, may_be_unknown] = own;
  const std::string named = fmt::format("{} '{}'", host.source, host.text);
  const auto address = own_address(host.text);
  if (!address) {
    if (may_be_unknown) return {};
    return invalid_argument(
        "{}: {}; correct it, or give an address", named, address.error().detail);
  }
  if (*address) return {};
  return invalid_argument("{}: is not an address of this machine, {}", named, remedy);
}

Error refused(const Given& given, std::string_view why) {
  return invalid_argument("{} '{}': {}", given.source, given.text, why);
}

/// A numeric address of this machine that others can use.
Result<std::string> address_of_host(const Given& given) {
  const auto address = own_address(given.text);
  if (!address) return refused(given, address.error().detail);
  std::string numeric = address->value_or("");
  if (numeric.empty()) {
    return refused(given, "is not an address of this machine; give one that is, or iface:NAME");
  }
  if (is_any(numeric)) return refused(given, "stands for all addresses; give one of them");
  // Linux lets a socket listen there, but nobody can connect to it.
  const bool is_group = boost::asio::ip::make_address(numeric).is_multicast();
  if (is_group || numeric == "255.255.255.255") {
    return refused(given, "stands for many machines; give an address of this one");
  }
  return numeric;
}

Result<std::string> address_of_interface(const Given& name, const RendezvousPlan& rendezvous) {
  const bool is_ipv6 =
      rendezvous.endpoint && rendezvous.endpoint->host.find(':') != std::string::npos;
  auto address = interface_address(name.text, is_ipv6 ? Family::kIpv6 : Family::kIpv4);
  if (!address) {
    return refused({.text = "iface:" + name.text, .source = name.source}, address.error().detail);
  }
  return address;
}

Result<std::string> address_of(const HostOrInterface& own, const RendezvousPlan& rendezvous) {
  return own.is_interface ? address_of_interface(own.named, rendezvous)
                          : address_of_host(own.named);
}

Result<void> plan_local_address(Options& options) {
  LaunchPlan& plan = options.plan;
  const bool has_others = plan.rendezvous.has_others();
  const auto& own = options.local_address;
  // On one node workers see a host unchanged, as under torchrun.
  if (!own || (!own->is_interface && !has_others)) return {};
  auto address = address_of(*own, plan.rendezvous);
  if (!address) return address.error();
  plan.master_address = *address;
  if (has_others) plan.rendezvous.local_address = *std::move(address);
  return {};
}

/// --bind, if it names one address.
Result<void> plan_bind(Options& options) {
  if (!options.bind) return {};
  auto address = address_of(*options.bind, options.plan.rendezvous);
  if (!address) return address.error();
  options.plan.rendezvous.bind = {.to = BindPlan::To::kAddress, .address = *std::move(address)};
  return {};
}

/// KillWait: Slurm's time from SIGTERM to SIGKILL, if its configuration can be read here.
std::optional<Duration> slurm_kill_wait(const Environment& environment) {
  const auto named = environment.find("SLURM_CONF");
  std::vector<std::string> paths = {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"};
  if (named != environment.end()) paths = {named->second};
  for (const std::string& path : paths) {
    const auto text = read_file(path, kSlurmConfMax);
    if (text) return kill_wait(*text);
  }
  return std::nullopt;
}

/// In a step, Slurm sets the grace period unless the user does.
void plan_notice(
    const std::optional<Allocation>& step, const Environment& environment, Options& options) {
  NoticePlan& notice = options.plan.notice;
  if (!step || options.has_grace) notice.grace = options.plan.shutdown_timeout;
  if (!step) {
    if (options.requeue != Requeue::kNo) {
      options.warnings.emplace_back(
          "--requeue has no effect: not in a Slurm step (srun ddprun ...)");
    }
    return;
  }
  notice.kill_wait = slurm_kill_wait(environment);
  notice.job_end = step->end_time;
}

/// Shown if a log needs it: always in a Slurm step, else only at a verbose log level.
void plan_header(
    const std::optional<Allocation>& step, const Environment& environment, LaunchPlan& plan) {
  if (!spdlog::should_log(step ? spdlog::level::warn : spdlog::level::info)) return;
  const auto commit = environment.find("GIT_COMMIT");
  const auto gpus = step ? step->gpus : std::nullopt;
  plan.header = HeaderPlan{
      .gpus = gpus ? *gpus : visible_gpus(environment),
      .commit = commit == environment.end() ? "" : std::string(trim(commit->second)),
      .slurm_restarts = step ? step->restarts : 0};
}

/// Checked only on one node: the number of workers on several nodes is not known yet.
Result<void> check_debug_rank(const LaunchPlan& plan) {
  const int rank = plan.debug_rank.value_or(0);
  if (plan.rendezvous.nodes.max() > 1 || rank < plan.workers) return {};
  return invalid_argument(
      "--debug-rank '{}': there are ranks 0 to {}; give one of them, or raise "
      "--nproc-per-node",
      rank,
      plan.workers - 1);
}

/// Checked before anything starts: otherwise a fence that cannot be claimed is noticed only when a
/// node is lost, and the job then waits for it.
Result<void> check_fence(const Options& options) {
  if (!options.fence_directory) return {};
  auto const checked = check_fence_directory(options.fence_directory->text);
  if (checked) return {};
  return invalid_argument(
      "{} '{}': {}; give a directory on a file system that all nodes share, where this user "
      "may create and link files",
      options.fence_directory->source,
      options.fence_directory->text,
      checked.error().detail);
}

/// A file such as the one that `srun --error=%n.txt` gives each task.
bool is_file(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

/// Everything that depends on the machine, except the program.
Result<void> plan_for_this_machine(
    const CommandLine& line,
    const std::optional<Allocation>& step,
    const Environment& environment,
    Options& options) {
  LaunchPlan& plan = options.plan;
  for (const OwnHost& own : options.own_hosts) {
    auto checked = check_own_host(own);
    if (!checked) return checked;
  }
  auto planned = plan_local_address(options);
  if (planned) planned = plan_bind(options);
  if (!planned) return planned;
  auto secret = read_secret(options, environment);
  if (!secret) return secret.error();
  plan.rendezvous.secret = *std::move(secret);
  auto checked = check_fence(options);
  if (!checked) return checked;
  if (step) {
    plan.slurm_step = step->name();
    plan.slurm_job = step->run_name();
    plan.batch_host = step->batch_host;
    plan.step_has_all_nodes = are_all_of_step(*step, line);
    plan.is_whole_step = is_whole_step(line);
  }
  plan.shares_console = plan.step_has_all_nodes && !is_file(STDERR_FILENO);
  plan.shares_logs = plan.rendezvous.has_others() || (step && step->nodes.size() > 1);
  if (step && plan.rendezvous.has_others()) {
    plan.rendezvous.expected = static_cast<int>(step->nodes.size());
    plan.rendezvous.other_ports = other_ports(*step, line);
    const Endpoint endpoint = plan.rendezvous.endpoint.value_or(Endpoint());
    if (plan.rendezvous.other_ports.empty())
      plan.rendezvous.refusal_ports = refusal_ports(endpoint.port);
    // Shorter in a step: a node that Slurm has lost never returns to its job; a network may
    // recover.
    const bool is_asked_for = options.settings.join_timeout || options.settings.timeout;
    if (!is_asked_for) plan.rendezvous.regather_timeout = kSlurmRegatherTimeout;
  }
  plan_notice(step, environment, options);
  plan_header(step, environment, plan);
  plan.memory_log.wants_gpus = wants_gpus(environment);
  const auto workers = count_workers(options.workers, environment, plan.usable_cpus);
  if (!workers) return workers.error();
  plan.workers = *workers;
  warn_of_no_effect(line, options);
  if (plan.run_id.empty()) plan.run_id = random_id();
  checked = check_debug_rank(plan);
  if (!checked) return checked;
  checked = bind_workers(options, environment);
  if (!checked) return checked;
  return check_devices(plan, environment);
}

/// Only the first of the surplus tasks reports this.
Request surplus(const Allocation& step) {
  Request request;
  request.action = Action::kNothing;
  if (step.node_id != 0 || step.local_id != 1) return request;
  request.warnings.push_back(fmt::format(
      "this step has {} tasks on {} node{}, but ddprun needs one per node: the first task of each "
      "node takes part, and the others exit with 0; start one per node by {}",
      step.tasks(),
      step.nodes.size(),
      step.nodes.size() == 1 ? "" : "s",
      srun_of_one_each(step)));
  return request;
}

}  // namespace

Result<Request> read_request(
    std::span<const std::string> arguments, const Environment& environment) {
  auto line = read_command_line(arguments, environment);
  if (!line) return line.error();
  if (line->action != Action::kRun) {
    Request request;
    request.action = line->action;
    request.shell = line->shell;
    return request;
  }
  const int cpus = usable_cpus();
  auto found = find_allocation(environment);
  if (!found && !gives_endpoint(*line)) return found.error();
  const std::optional<Allocation> step = found ? *std::move(found) : std::nullopt;
  if (step && is_surplus(*step, *line)) return surplus(*step);
  auto filled = fill_for_independent(step, *line);
  if (!filled) return filled.error();
  if (step) {
    filled = fill_from_slurm(*step, cpus, *line);
    if (!filled) return filled.error();
  }
  auto options = read_options(*line, environment);
  if (!options) return options.error();
  options->plan.usable_cpus = cpus;
  auto const planned = plan_for_this_machine(*line, step, environment, *options);
  if (!planned) return planned.error();
  auto plans = plans_of(*options, environment);
  if (!plans) return plans.error();

  Request request;
  request.plans = *std::move(plans);
  if (step) {
    request.requeue = {
        .mode = options->requeue, .job = step->scontrol_id(), .restarts = step->restarts};
  }
  request.warnings = std::move(options->warnings);
  return request;
}

}  // namespace ddprun
