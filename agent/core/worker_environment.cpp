#include "agent/core/worker_environment.hpp"

#include "agent/core/prefix.hpp"
#include "base/check.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <ranges>

namespace ddprun {
namespace {

/// Variables by name, with their entries "NAME=value".
class Variables {
 public:
  explicit Variables(const std::vector<std::string>& inherited) {
    for (const std::string& entry : inherited) {
      // If a name occurs twice, the first value wins, as in getenv.
      entries_.try_emplace(entry.substr(0, entry.find('=')), entry);
    }
  }

  void set(const std::string& name, std::string_view value) {
    entries_.insert_or_assign(name, fmt::format("{}={}", name, value));
  }
  void set(const std::string& name, std::int64_t value) { set(name, fmt::to_string(value)); }
  void set_default(const std::string& name, std::string_view value) {
    entries_.try_emplace(name, fmt::format("{}={}", name, value));
  }
  void set_or_remove(const std::string& name, std::string_view value) {
    if (value.empty()) return remove(name);
    set(name, value);
  }
  void remove(const std::string& name) { entries_.erase(name); }

  std::optional<std::string> get(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return std::nullopt;
    const std::string& entry = found->second;
    return entry.substr(std::min(entry.size(), name.size() + 1));
  }

  std::vector<std::string> entries() const {
    const auto entries = std::views::values(entries_);
    return {entries.begin(), entries.end()};
  }

 private:
  std::map<std::string, std::string> entries_;
};

void set_ranks(const LaunchPlan& plan, const WorkerPlace& worker, Variables& environment) {
  const Place& node = worker.round.place;
  environment.set(contract::kRank, worker.rank());
  environment.set(contract::kWorldSize, node.world_size);
  environment.set(contract::kLocalRank, plan.virtual_local_rank ? 0 : worker.local_rank);
  environment.set(contract::kLocalWorldSize, plan.workers);
  environment.set(contract::kGroupRank, node.group_rank);
  environment.set(contract::kGroupWorldSize, node.group_size);
  environment.set(contract::kRoleName, plan.role);
  environment.set(contract::kRoleRank, worker.rank());
  environment.set(contract::kRoleWorldSize, node.world_size);
}

/// The hosts of the round, "n0,n1"; with ",+2" after them if there are two nodes more.
std::string nodes_of(const effects::StartWorkers& round) {
  const auto named = round.hosts.empty() ? 0 : std::ranges::count(round.hosts, ',') + 1;
  const auto unnamed = round.place.group_size - named;
  if (unnamed <= 0) return round.hosts;
  return fmt::format("{}{}+{}", round.hosts, round.hosts.empty() ? "" : ",", unnamed);
}

void set_job(const LaunchPlan& plan, const WorkerPlace& worker, Variables& environment) {
  const effects::StartWorkers& round = worker.round;
  environment.set(contract::kMasterAddr, round.master.host);
  environment.set(contract::kMasterPort, round.master.port);
  environment.set(contract::kUseAgentStore, plan.shared_store ? "True" : "False");
  environment.set(contract::kRunId, plan.run_id);
  environment.set(contract::kRestartCount, round.progress.attempt);
  environment.set(contract::kMaxRestarts, plan.max_restarts);
  environment.set(contract::kErrorFile, worker.error_file);
  environment.set(contract::kSignalsToHandle, plan.signals_text);
  environment.set(contract::kNodes, nodes_of(round));
  environment.set_or_remove(contract::kNoticeFile, worker.notice_file);
  environment.set_or_remove(contract::kTimerFile, worker.timer_file);
  environment.set_or_remove(contract::kStepFile, worker.step_file);
  environment.set_or_remove(
      contract::kStepSlot, worker.step_file.empty() ? "" : fmt::to_string(worker.local_rank));
  environment.set_or_remove(contract::kStackFile, worker.stack_file);
  environment.set(contract::kTerm, round.round.term);
  environment.set(contract::kTermAlias, round.round.term);
  environment.set(contract::kRound, round.round.number);
}

void set_restart(const Progress& progress, Variables& environment) {
  if (progress.attempt == 0) {
    environment.remove(contract::kRestartReason);
    environment.remove(contract::kPreviousWorldSize);
    return;
  }
  environment.set(contract::kRestartReason, progress.reason);
  environment.set(contract::kPreviousWorldSize, progress.previous_world);
}

/// The same for all workers.
void set_common(Variables& environment) {
  environment.remove(contract::kSecret);
  environment.set_default(contract::kNcclAsyncErrorHandling, "1");
}

/// For OpenMP.
int threads_of(const LaunchPlan& plan, int local_rank) {
  int cpus = plan.usable_cpus / plan.workers;
  if (!plan.cpus.empty()) {
    const auto& own = plan.cpus[static_cast<std::size_t>(local_rank)];
    cpus = std::min(cpus, static_cast<int>(own.size()));
  }
  return std::max(1, cpus);
}

/// The one device for this worker. Entries may be numbers, "GPU-…" or "MIG-…": they are text.
Result<std::string> virtual_device(const std::optional<std::string>& devices, int local_rank) {
  if (!devices) return fmt::to_string(local_rank);
  const auto entries = split(*devices, ',');
  const auto index = static_cast<std::size_t>(local_rank);
  if (devices->empty() || index >= entries.size()) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{}='{}' has no device for local rank {}: name one per worker, or start fewer workers",
            contract::kCudaVisibleDevices,
            *devices,
            local_rank));
  }
  return std::string(trim(entries[index]));
}

constexpr std::string_view kWrapLetters = "nrlwj%";

std::string meaning(char letter, const WorkerPlace& place, std::string_view run_id) {
  switch (letter) {
    case 'n':
      return fmt::to_string(place.round.place.group_rank);
    case 'r':
      return fmt::to_string(place.rank());
    case 'l':
      return fmt::to_string(place.local_rank);
    case 'w':
      return fmt::to_string(place.round.place.world_size);
    case 'j':
      return std::string(run_id);
    default:
      return "%";
  }
}

}  // namespace

Result<std::vector<std::string>> worker_environment(
    const LaunchPlan& plan, const WorkerPlace& place, const std::vector<std::string>& inherited) {
  Variables environment(inherited);
  set_ranks(plan, place, environment);
  set_job(plan, place, environment);
  set_restart(place.round.progress, environment);
  if (plan.task) environment.set(contract::kTaskId, plan.task->id);
  set_common(environment);
  if (!place.interface.empty()) {
    environment.set_default(contract::kGlooInterface, place.interface);
    // NCCL takes a name as a prefix of interface names.
    environment.set_default(contract::kNcclInterface, "=" + place.interface);
  }
  environment.set_default(
      contract::kOmpNumThreads, fmt::to_string(threads_of(plan, place.local_rank)));
  if (plan.virtual_local_rank) {
    const auto device =
        virtual_device(environment.get(contract::kCudaVisibleDevices), place.local_rank);
    if (!device) return device.error();
    environment.set(contract::kCudaVisibleDevices, *device);
  }
  if (plan.task && plan.task->device) {
    environment.set(contract::kCudaVisibleDevices, *plan.task->device);
  }
  return environment.entries();
}

std::vector<std::string> fork_server_environment(
    const LaunchPlan& plan, const std::vector<std::string>& inherited) {
  Variables environment(inherited);
  for (const char* const name : contract::kOfOneWorker) {
    environment.remove(name);
  }
  set_common(environment);
  environment.set_default(contract::kOmpNumThreads, fmt::to_string(threads_of(plan, 0)));
  return environment.entries();
}

std::string with_local_rank(std::string_view text, int local_rank) {
  return expand(text, {{"local_rank", fmt::to_string(local_rank)}});
}

std::optional<std::string> unknown_placeholder(std::string_view word) {
  for (std::size_t at = 0; (at = word.find('%', at)) != std::string_view::npos; at += 2) {
    const std::string_view placeholder = word.substr(at, 2);
    const bool is_known =
        placeholder.size() == 2 && kWrapLetters.find(placeholder[1]) != std::string_view::npos;
    if (!is_known) return std::string(placeholder);
  }
  return std::nullopt;
}

std::string with_place(std::string_view word, const WorkerPlace& place, std::string_view run_id) {
  DDPRUN_CHECK(!unknown_placeholder(word));
  std::string out;
  while (!word.empty()) {
    const std::size_t at = word.find('%');
    out += word.substr(0, at);
    if (at == std::string_view::npos) break;
    out += meaning(word[at + 1], place, run_id);
    word.remove_prefix(at + 2);
  }
  return out;
}

}  // namespace ddprun
