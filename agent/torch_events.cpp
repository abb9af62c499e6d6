#include "agent/torch_events.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t wall_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

void TorchEvents::round_begins(const effects::StartWorkers& round) {
  round_ = round;
  record("RENDEZVOUS", std::nullopt, Clock::now() - waits_since_);
  record("ASSIGN_WORKER_RANKS", std::nullopt, Duration::zero());  // they came with the round
}

void TorchEvents::worker_started(int local_rank, pid_t pid) {
  record("START", Worker{.local_rank = local_rank, .pid = pid, .exit_code = std::nullopt});
}

void TorchEvents::worker_ended(int local_rank, pid_t pid, ProcessEnd end, bool was_stopped) {
  waits_since_ = Clock::now();
  const int code = end.signal != 0 ? -end.signal : end.code;
  const std::string_view failed = was_stopped ? "TERMINATED" : "FAILED";
  record(
      end.ok() ? "SUCCEEDED" : failed,
      Worker{.local_rank = local_rank, .pid = pid, .exit_code = code});
}

void TorchEvents::job_ended(int exit_status) {
  ended_ = Clock::now();
  record(exit_status == kExitOk ? "SUCCEEDED" : "FAILED", std::nullopt);
}

void TorchEvents::record(
    std::string_view state, const std::optional<Worker>& worker, std::optional<Duration> took) {
  if (!plan_.has_torch_events) return;
  const auto& place = round_.place;
  Json more;  // for a worker, these fields are lists of one element
  more["group_world_size"] = place.group_size;
  more["entry_point"] = plan_.command.title;
  std::optional<int> rank;
  std::optional<std::string> worker_id;
  if (worker) {
    rank = place.first_rank + worker->local_rank;
    worker_id = std::to_string(worker->pid);
    more["local_rank"] = Json::array({worker->local_rank});
    more["role_rank"] = Json::array({*rank});
    more["role_world_size"] = Json::array({place.world_size});
    more["exit_code"] = Json::array({or_null(worker->exit_code)});
    more["worker_pid"] = Json::array({worker->pid});
  }
  std::optional<double> duration_ms;
  if (took) duration_ms = to_seconds(*took) * 1000;
  const double run_time_s = ended_ ? to_seconds(*ended_ - began_) : 0;

  Json metadata;
  metadata["run_id"] = plan_.run_id;
  metadata["global_rank"] = or_null(rank);
  metadata["group_rank"] = place.group_rank;
  metadata["worker_id"] = or_null(worker_id);
  metadata["role"] = plan_.role;
  metadata["hostname"] = host_;
  metadata["state"] = state;
  metadata["total_run_time"] = static_cast<std::int64_t>(run_time_s);
  metadata["rdzv_backend"] = plan_.rdzv_backend;
  metadata["raw_error"] = Json();
  metadata["metadata"] = more.dump(-1, ' ', false, Json::error_handler_t::replace);
  metadata["agent_restarts"] = round_.progress.attempt;
  metadata["duration_ms"] = or_null(duration_ms);
  Json event;
  event["name"] = fmt::format("torchelastic.worker.status.{}", state);
  event["source"] = worker ? "WORKER" : "AGENT";
  event["timestamp"] = wall_milliseconds();
  event["metadata"] = std::move(metadata);
  journal_.report_lines(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace ddprun
