#include "agent/core/worker_environment.hpp"

#include "agent/core/prefix.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

/// Variables by name, in the order they were first seen.
class Environment {
 public:
  explicit Environment(const std::vector<std::string>& inherited) : entries_(inherited) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      // If a name occurs twice, the first value wins, as in getenv.
      index_.try_emplace(entries_[i].substr(0, entries_[i].find('=')), i);
    }
  }

  void set(const char* name, std::string_view value) {
    std::string entry = fmt::format("{}={}", name, value);
    const auto [found, is_new] = index_.try_emplace(name, entries_.size());
    if (is_new) {
      entries_.push_back(std::move(entry));
    } else {
      entries_[found->second] = std::move(entry);
    }
  }

  void set(const char* name, std::int64_t value) { set(name, fmt::to_string(value)); }

  void set_default(const char* name, std::string_view value) {
    if (!index_.contains(name)) set(name, value);
  }

  void remove(const char* name) {
    const auto found = index_.find(name);
    if (found == index_.end()) return;
    entries_[found->second].clear();
    index_.erase(found);
  }

  void set_or_remove(const char* name, std::string_view value) {
    if (value.empty()) return remove(name);
    set(name, value);
  }

  std::optional<std::string> get(const char* name) const {
    const auto found = index_.find(name);
    if (found == index_.end()) return std::nullopt;
    const std::string& entry = entries_[found->second];
    return entry.substr(std::min(entry.size(), entry.find('=') + 1));
  }

  std::vector<std::string> take() && {
    std::erase_if(entries_, [](const std::string& entry) { return entry.empty(); });
    return std::move(entries_);
  }

 private:
  std::vector<std::string> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

void set_ranks(const LaunchPlan& plan, const WorkerPlace& worker, Environment& environment) {
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

void set_job(const LaunchPlan& plan, const WorkerPlace& worker, Environment& environment) {
  const effects::StartWorkers& round = worker.round;
  environment.set(contract::kMasterAddr, round.master.host);
  environment.set(contract::kMasterPort, round.master.port);
  environment.set(contract::kUseAgentStore, plan.shared_store ? "True" : "False");
  environment.set(contract::kRunId, plan.run_id);
  environment.set(contract::kRestartCount, round.progress.attempt);
  environment.set(contract::kMaxRestarts, plan.max_restarts);
  environment.set(contract::kErrorFile, worker.error_file);
  environment.set(contract::kSignalsToHandle, plan.signals_text);
  environment.set(contract::kNodes, round.hosts);
  environment.set_or_remove(contract::kNoticeFile, worker.notice_file);
  environment.set_or_remove(contract::kTimerFile, worker.timer_file);
  environment.set(contract::kTerm, round.round.term);
  environment.set(contract::kTermAlias, round.round.term);
  environment.set(contract::kRound, round.round.number);
}

void set_restart(const Progress& progress, Environment& environment) {
  if (progress.attempt == 0) {
    environment.remove(contract::kRestartReason);
    environment.remove(contract::kPreviousWorldSize);
    return;
  }
  environment.set(contract::kRestartReason, progress.reason);
  environment.set(contract::kPreviousWorldSize, progress.previous_world);
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

}  // namespace

Result<std::vector<std::string>> worker_environment(
    const LaunchPlan& plan, const WorkerPlace& place, const std::vector<std::string>& inherited) {
  Environment environment(inherited);
  set_ranks(plan, place, environment);
  set_job(plan, place, environment);
  set_restart(place.round.progress, environment);
  if (plan.task) environment.set(contract::kTaskId, plan.task->id);
  environment.remove(contract::kSecret);
  environment.set_default(contract::kNcclAsyncErrorHandling, "1");
  if (!place.interface.empty()) {
    environment.set_default(contract::kGlooInterface, place.interface);
    // NCCL takes a name as a prefix of interface names.
    environment.set_default(contract::kNcclInterface, "=" + place.interface);
  }
  int cpus = plan.usable_cpus / plan.workers;
  if (!plan.cpus.empty()) {
    const auto& own = plan.cpus[static_cast<std::size_t>(place.local_rank)];
    cpus = std::min(cpus, static_cast<int>(own.size()));
  }
  const int threads = std::max(1, cpus);
  environment.set_default(contract::kOmpNumThreads, fmt::to_string(threads));
  if (plan.virtual_local_rank) {
    const auto device =
        virtual_device(environment.get(contract::kCudaVisibleDevices), place.local_rank);
    if (!device) return device.error();
    environment.set(contract::kCudaVisibleDevices, *device);
  }
  if (plan.task && plan.task->device) {
    environment.set(contract::kCudaVisibleDevices, *plan.task->device);
  }
  return std::move(environment).take();
}

std::string with_local_rank(std::string_view text, int local_rank) {
  return expand(text, {{"local_rank", fmt::to_string(local_rank)}});
}

}  // namespace ddprun
