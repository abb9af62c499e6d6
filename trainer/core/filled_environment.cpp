#include "trainer/core/filled_environment.hpp"

#include "base/worker_contract.hpp"
#include "slurm/core/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

/// The names that a starter of tasks uses for RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE;
/// nullptr for values that it does not set.
struct TaskNames {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

// The innermost first. PMI's local names are those of MPICH and Intel; PMIx never sets a count.
constexpr std::array<TaskNames, 4> kTaskNames = {{
    {.rank = "OMPI_COMM_WORLD_RANK",
     .world = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_world = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.rank = "PMI_RANK",
     .world = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .local_world = "MPI_LOCALNRANKS"},
    {.rank = "PMIX_RANK", .world = nullptr, .local_rank = nullptr, .local_world = nullptr},
    {.rank = "SLURM_PROCID",
     .world = "SLURM_NTASKS",
     .local_rank = "SLURM_LOCALID",
     .local_world = nullptr},
}};

class Filler {
 public:
  explicit Filler(Environment environment) { filled_.variables = std::move(environment); }

  const Environment& variables() const { return filled_.variables; }
  bool has(const char* name) const { return filled_.variables.contains(name); }

  /// A variable that is set stays unchanged.
  void fill(const char* name, const std::string& value, const char* source) {
    if (filled_.variables.try_emplace(name, value).second) {
      filled_.sources.emplace(name, source);
    }
  }

  void fill_from(const TaskNames& names) {
    const auto take = [this](const char* name, const char* source) {
      const auto value = source == nullptr ? std::nullopt : filled_.find(source);
      if (value) fill(name, *value, source);
    };
    take(contract::kRank, names.rank);
    take(contract::kWorldSize, names.world);
    take(contract::kLocalRank, names.local_rank);
    take(contract::kLocalWorldSize, names.local_world);
    // None of them says where rank 0 is, except in this case.
    const bool all_are_here = names.local_world != nullptr && has(names.local_world) &&
                              filled_.find(names.local_world) == filled_.find(contract::kWorldSize);
    if (all_are_here) fill(contract::kMasterAddr, "127.0.0.1", names.local_world);
  }

  void fill_from(const Allocation& step) {
    fill(contract::kRank, std::to_string(step.task_id), "SLURM_PROCID");
    fill(contract::kWorldSize, std::to_string(step.tasks()), "SLURM_STEP_NUM_TASKS");
    fill(contract::kLocalRank, std::to_string(step.local_id), "SLURM_LOCALID");
    fill(contract::kLocalWorldSize, std::to_string(step.tasks_here()), "SLURM_STEP_TASKS_PER_NODE");
    fill(contract::kMasterAddr, step.nodes.front(), "SLURM_STEP_NODELIST");
    filled_.run_name = step.run_name();
    if (!has(contract::kMasterPort)) fill_port(step);
  }

  FilledEnvironment take() && { return std::move(filled_); }

 private:
  void fill_port(const Allocation& step) {
    const auto ports = step.ports();
    fill(contract::kMasterPort, std::to_string(ports.front()), "SLURM_JOB_ID");
    StoreSearch search;
    search.ports.assign(ports.begin(), ports.end());
    search.mark = fmt::format("ddptrain/{}.{}.{}", step.job_id, step.step_id, step.restarts);
    filled_.search = std::move(search);
  }

  FilledEnvironment filled_;
};

/// The names used by the starter of this task, unless Slurm started it for a step.
const TaskNames* task_names_in(const Environment& environment) {
  const auto* const found = std::ranges::find_if(
      kTaskNames,
      [&environment](const TaskNames& names) { return environment.contains(names.rank); });
  if (found == kTaskNames.end()) return nullptr;
  // Slurm sets it in batch scripts, too, but never without a job.
  const bool is_of_script = found == &kTaskNames.back() && environment.contains("SLURM_JOB_ID");
  return is_of_script ? nullptr : found;
}

/// Whether the tasks of `names` are the step's own (srun --mpi=pmi2), and not started by one of
/// them.
bool are_tasks_of(const Allocation& step, const TaskNames& names, const Environment& environment) {
  const auto is = [&environment](const char* name, int value) {
    const auto found = environment.find(name);
    return found != environment.end() && found->second == std::to_string(value);
  };
  return is(names.rank, step.task_id) && (names.world == nullptr || is(names.world, step.tasks()));
}

/// Occurs with `srun --distribution=arbitrary`; no variable tells the other tasks.
Error rank_0_is_not_first(const Allocation& step) {
  return make_error(
      Errc::kInvalidArgument,
      fmt::format(
          "rank 0 is on {}, but the other tasks expect it on {}, the first node of the step; set "
          "MASTER_ADDR to the host of task 0, or start srun without --distribution=arbitrary",
          step.node_name(),
          step.nodes.front()));
}

/// Checks the result.
Result<FilledEnvironment> checked(FilledEnvironment filled, const std::optional<Allocation>& step) {
  const auto has_filled = [&filled](const char* name) { return filled.sources.contains(name); };
  if (has_filled(contract::kRank) && !filled.find(contract::kWorldSize)) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} is '{}', but nothing says how many ranks there are; set WORLD_SIZE",
            filled.said_by(contract::kRank),
            filled.variables[contract::kRank]));
  }
  const bool hosts_the_store = filled.find(contract::kRank) == "0";
  if (step && hosts_the_store && has_filled(contract::kMasterAddr) && step->node_id != 0) {
    return rank_0_is_not_first(*step);
  }
  return filled;
}

/// The text for a variable that is not set.
std::string text_of_unset(const FilledEnvironment& environment, const std::string& name) {
  const bool is_alone =
      !environment.find(contract::kRank) && !environment.find(contract::kWorldSize);
  if (is_alone && (name == contract::kRank || name == contract::kLocalRank)) {
    return fmt::format("{}=0  # alone", name);
  }
  if (is_alone && (name == contract::kWorldSize || name == contract::kLocalWorldSize)) {
    return fmt::format("{}=1  # alone", name);
  }
  if (!is_alone && name == contract::kMasterPort) {
    return fmt::format("{}={}  # the usual one", name, kUsualMasterPort);
  }
  return fmt::format("# {} is not set", name);
}

}  // namespace

std::optional<std::string> FilledEnvironment::find(const std::string& name) const {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  return found->second;
}

std::string FilledEnvironment::said_by(const std::string& name) const {
  const auto found = sources.find(name);
  return found == sources.end() ? name : found->second;
}

Result<FilledEnvironment> fill_environment(Environment environment) {
  Filler filler(std::move(environment));
  const std::array<const char*, 4> enough = {
      contract::kRank, contract::kWorldSize, contract::kMasterAddr, contract::kMasterPort};
  const bool has_enough =
      std::ranges::all_of(enough, [&filler](const char* name) { return filler.has(name); });
  const Environment& given = filler.variables();
  const auto world = given.find(contract::kWorldSize);
  const bool is_alone = world != given.end() && world->second == "1";
  if (has_enough || is_alone) return std::move(filler).take();

  auto found = find_allocation(given);
  if (!found) return found.error();
  std::optional<Allocation> step = *std::move(found);
  const TaskNames* const names = task_names_in(given);
  if (names != nullptr && !(step && are_tasks_of(*step, *names, given))) {
    step.reset();
    filler.fill_from(*names);
  }
  if (step) filler.fill_from(*step);
  return checked(std::move(filler).take(), step);
}

std::string environment_text(const FilledEnvironment& environment) {
  constexpr std::array<const char*, 6> kNames = {
      contract::kRank,
      contract::kLocalRank,
      contract::kWorldSize,
      contract::kLocalWorldSize,
      contract::kMasterAddr,
      contract::kMasterPort};
  std::string text;
  for (const std::string name : kNames) {
    const auto value = environment.find(name);
    const auto source = environment.sources.find(name);
    const bool is_set = source == environment.sources.end();
    text += value ? fmt::format("{}={}  # {}", name, *value, is_set ? "set" : source->second)
                  : text_of_unset(environment, name);
    text += '\n';
  }
  return text;
}

Result<void> require_rank(const FilledEnvironment& environment) {
  if (environment.find(contract::kRank)) return {};
  return make_error(
      Errc::kInvalidArgument,
      "--distributed, but nothing says which rank this is; start it by 'srun ddptrain' or 'ddprun "
      "ddptrain', or leave the flag out to train alone");
}

}  // namespace ddprun
