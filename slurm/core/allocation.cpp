#include "slurm/core/allocation.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"
#include "slurm/core/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <numeric>
#include <utility>

namespace ddprun {
namespace {

/// Slurm's step ids from here on are not launches: batch script, interactive shell, external step.
constexpr std::uint32_t kFirstReservedStep = 4'294'967'280;
constexpr int kTasksMax = 16'777'216;
constexpr int kPerNodeMax = 1'000'000;
constexpr std::int64_t kTimeMax = 253'402'300'799;  // the year 9999

/// The variables of one environment as values. Keeps the first error, which stands for all.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& environment)
      : environment_(environment) {}

  const std::optional<Error>& error() const { return error_; }

  std::optional<std::string_view> find(const char* name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end()) return std::nullopt;
    return found->second;
  }

  std::string_view text(const char* name) {
    const auto found = find(name);
    if (!found) refuse(fmt::format("{} is not set in a step", name));
    return found.value_or("");
  }

  /// None if it is not set.
  template <std::integral T>
  std::optional<T> find_number(const char* name, T min, T max) {
    const auto found = find(name);
    if (!found) return std::nullopt;
    const auto number = parse_int<T>(*found);
    if (number && *number >= min && *number <= max) return number;
    refuse(fmt::format(
        "{} is '{}', not a whole number from {} to {}", name, excerpt(*found), min, max));
    return min;
  }

  template <std::integral T>
  T number(const char* name, T min, T max) {
    text(name);
    return find_number(name, min, max).value_or(min);
  }

  /// The result of `parse` on the variable's text.
  template <class Parse>
  auto list(const char* name, Parse parse) {
    auto values = parse(text(name));
    if (values) return *std::move(values);
    refuse(fmt::format("{}: {}", name, values.error().detail));
    return typename decltype(values)::value_type{};
  }

  void refuse(const std::string& why) {
    if (error_) return;
    error_ = make_error(
        Errc::kInvalidArgument,
        why + "; start ddprun by srun, or unset SLURM_STEP_ID to run without Slurm");
  }

 private:
  const std::map<std::string, std::string>& environment_;
  std::optional<Error> error_;
};

/// Slurm numbers the GPUs of the node or of the step, so any number is valid. Without the variable
/// the task sees all GPUs of the job on this node (--gpu-bind=none).
std::optional<int> read_gpus(Variables& variables) {
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  if (!visible) return variables.find_number("SLURM_GPUS_ON_NODE", 0, kPerNodeMax);
  return visible_devices(*visible);
}

/// For a job by sbatch its first node, unless srun was called from elsewhere.
std::string read_batch_host(const Variables& variables) {
  const auto kind = variables.find("ENVIRONMENT");
  const auto nodes = variables.find("SLURM_JOB_NODELIST");
  if (!kind || *kind != "BATCH" || !nodes) return {};
  const auto names = expand_hostlist(*nodes);
  return names && !names->empty() ? names->front() : std::string();
}

/// Checks that the four variables of the nodes and the three of this task agree.
void check(const Allocation& allocation, int nodes, int tasks, Variables& variables) {
  const auto disagree = [&variables](
                            const char* one, auto number, const char* other, auto expected) {
    variables.refuse(fmt::format("{} has {}, but {} says {}", one, number, other, expected));
  };
  const char* const node_list = "SLURM_STEP_NODELIST";
  const char* const task_list = "SLURM_STEP_TASKS_PER_NODE";
  const auto listed = allocation.nodes.size();
  if (std::cmp_not_equal(listed, nodes)) {
    return disagree(node_list, fmt::format("{} nodes", listed), "SLURM_STEP_NUM_NODES", nodes);
  }
  const auto counted = allocation.tasks_per_node.size();
  if (counted != listed) {
    return disagree(task_list, fmt::format("{} nodes", counted), node_list, listed);
  }
  if (allocation.tasks() != tasks) {
    const std::string sum = fmt::format("{} tasks", allocation.tasks());
    return disagree(task_list, sum, "SLURM_STEP_NUM_TASKS", tasks);
  }
  if (allocation.node_id >= listed) {
    return disagree("SLURM_NODEID", allocation.node_id, "SLURM_STEP_NUM_NODES", nodes);
  }
  if (allocation.task_id >= tasks) {
    return disagree("SLURM_PROCID", allocation.task_id, "SLURM_STEP_NUM_TASKS", tasks);
  }
  if (allocation.local_id >= allocation.tasks_here()) {
    disagree("SLURM_LOCALID", allocation.local_id, task_list, allocation.tasks_here());
  }
}

Result<std::optional<Allocation>> read_step(std::uint32_t step, Variables& variables) {
  constexpr int kNodesMax = static_cast<int>(kHostsMax);
  constexpr auto kIdMax = std::numeric_limits<std::uint32_t>::max();
  const int nodes = variables.number("SLURM_STEP_NUM_NODES", 1, kNodesMax);
  const int tasks = variables.number("SLURM_STEP_NUM_TASKS", 1, kTasksMax);
  const Allocation allocation{
      .job_id = variables.number<std::uint32_t>("SLURM_JOB_ID", 1, kIdMax),
      .step_id = step,
      .nodes = variables.list("SLURM_STEP_NODELIST", expand_hostlist),
      .tasks_per_node = variables.list("SLURM_STEP_TASKS_PER_NODE", expand_counts),
      .node_id = variables.number<std::size_t>("SLURM_NODEID", 0, kHostsMax - 1),
      .task_id = variables.number("SLURM_PROCID", 0, kTasksMax - 1),
      .local_id = variables.number("SLURM_LOCALID", 0, kPerNodeMax - 1),
      .job_nodes = variables.find_number("SLURM_JOB_NUM_NODES", 1, kNodesMax).value_or(nodes),
      .cpus = variables.find_number("SLURM_CPUS_ON_NODE", 1, kPerNodeMax),
      .gpus = read_gpus(variables),
      .restarts = variables.find_number("SLURM_RESTART_COUNT", 0, kPerNodeMax).value_or(0),
      .end_time = variables.find_number<std::int64_t>("SLURM_JOB_END_TIME", 0, kTimeMax),
      .array_job = variables.find_number<std::uint32_t>("SLURM_ARRAY_JOB_ID", 1, kIdMax),
      .array_task = variables.find_number<std::uint32_t>("SLURM_ARRAY_TASK_ID", 0, kIdMax),
      .batch_host = read_batch_host(variables),
      .is_heterogeneous = variables.find("SLURM_HET_SIZE").has_value(),
  };
  if (!variables.error()) check(allocation, nodes, tasks, variables);
  if (const auto& error = variables.error()) return *error;
  return std::optional(allocation);
}

}  // namespace

int Allocation::tasks() const {
  return std::accumulate(tasks_per_node.begin(), tasks_per_node.end(), 0);
}

bool Allocation::has_shared_nodes() const {
  return std::ranges::any_of(tasks_per_node, [](int tasks) { return tasks > 1; });
}

std::array<std::uint16_t, Allocation::kPorts> Allocation::ports() const {
  constexpr std::uint32_t kJobs = 10'000;  // consecutive jobs with different first ports
  std::array<std::uint16_t, kPorts> ports{};
  std::uint32_t next = job_id % kJobs;
  for (std::uint16_t& port : ports)
    port = static_cast<std::uint16_t>(next += kJobs);
  return ports;
}

std::string Allocation::scontrol_id() const {
  if (!array_job || !array_task) return fmt::format("{}", job_id);
  return fmt::format("{}_{}", *array_job, *array_task);
}

std::string Allocation::name() const {
  return fmt::format("{}.{}", job_id, step_id);
}

std::string Allocation::run_name() const {
  return step_id == 0 ? fmt::format("{}", job_id) : fmt::format("{}_step{}", job_id, step_id);
}

Result<std::optional<Allocation>> find_allocation(
    const std::map<std::string, std::string>& environment) {
  Variables variables(environment);
  if (variables.find("SLURM_STEP_ID").value_or("").empty()) return std::optional<Allocation>();
  const auto step = variables.number<std::uint32_t>(
      "SLURM_STEP_ID", 0, std::numeric_limits<std::uint32_t>::max());
  if (const auto& error = variables.error()) return *error;
  if (step >= kFirstReservedStep) return std::optional<Allocation>();
  return read_step(step, variables);
}

std::string srun_of_one_each(const Allocation& allocation) {
  const std::size_t nodes = allocation.nodes.size();
  return fmt::format("srun --nodes={} --ntasks={} --ntasks-per-node=1 ddprun", nodes, nodes);
}

Error agents_share_nodes(const Allocation& allocation) {
  const std::size_t nodes = allocation.nodes.size();
  return invalid_argument(
      "this step has {} tasks on {} node{}, but ddprun needs one per node; start it by {}",
      allocation.tasks(),
      nodes,
      nodes == 1 ? "" : "s",
      srun_of_one_each(allocation));
}

int visible_devices(std::string_view list, int devices) {
  int entries = 0;
  for (const std::string_view piece : split(list, ',')) {
    const std::string_view id = trim(piece);
    const auto number = parse_int<int>(id);
    const bool is_device = !number || (*number >= 0 && *number < devices);
    if (id.empty() || id == "NoDevFiles" || !is_device) break;
    ++entries;
  }
  return entries;
}

}  // namespace ddprun
