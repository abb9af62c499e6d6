#pragma once

// The names shared by the agent and its workers. docs/worker_contract.md defines them; agent/ sets
// them, trainer/ reads them, and neither includes the other.

#include "base/exit_status.hpp"

#include <csignal>
#include <cstddef>
#include <cstdint>

namespace ddprun::contract {

// Ranks, as torch.distributed's env:// reads them.
inline constexpr char kRank[] = "RANK";
inline constexpr char kWorldSize[] = "WORLD_SIZE";
inline constexpr char kLocalRank[] = "LOCAL_RANK";
inline constexpr char kLocalWorldSize[] = "LOCAL_WORLD_SIZE";
inline constexpr char kGroupRank[] = "GROUP_RANK";
inline constexpr char kGroupWorldSize[] = "GROUP_WORLD_SIZE";
inline constexpr char kRoleName[] = "ROLE_NAME";
inline constexpr char kRoleRank[] = "ROLE_RANK";
inline constexpr char kRoleWorldSize[] = "ROLE_WORLD_SIZE";

// Where the store is.
inline constexpr char kMasterAddr[] = "MASTER_ADDR";
inline constexpr char kMasterPort[] = "MASTER_PORT";
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr char kDisableShareStore[] = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";

// The job and this attempt at it.
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";
inline constexpr char kSignalsToHandle[] = "TORCHELASTIC_SIGNALS_TO_HANDLE";
inline constexpr char kRestartReason[] = "DDPRUN_RESTART_REASON";
inline constexpr char kPreviousWorldSize[] = "DDPRUN_PREV_WORLD_SIZE";
inline constexpr char kTaskId[] = "DDPRUN_TASK_ID";
inline constexpr char kNodes[] = "DDPRUN_NODES";
inline constexpr char kNoticeFile[] = "DDPRUN_NOTICE_FILE";
inline constexpr char kStepFile[] = "DDPRUN_STEP_FILE";
inline constexpr char kStepSlot[] = "DDPRUN_STEP_SLOT";
inline constexpr char kStackFile[] = "DDPRUN_STACK_FILE";
inline constexpr char kEnableFileTimer[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kTimerFile[] = "TORCHELASTIC_TIMER_FILE";

// The round that owns what a worker writes (R10): later terms and rounds are larger.
inline constexpr char kTerm[] = "DDPRUN_TERM";
inline constexpr char kTermAlias[] = "DDPRUN_GENERATION";  // the same under its name in version 0.1
inline constexpr char kRound[] = "DDPRUN_ROUND";

/// What differs between workers or between rounds.
inline constexpr const char* kOfOneWorker[] = {
    kRank,           kWorldSize,    kLocalRank, kLocalWorldSize, kGroupRank,
    kGroupWorldSize, kRoleRank,     kRoleName,  kRoleWorldSize,  kMasterAddr,
    kMasterPort,     kRestartCount, kErrorFile, kRestartReason,  kPreviousWorldSize,
    kNodes,          kNoticeFile,   kStepFile,  kStepSlot,       kStackFile,
    kTerm,           kTermAlias,    kRound};

/// What a worker writes at kStepSlot of the array in kStepFile, and its agent reads, without a lock
/// and without a system call. All zeros at the start of an attempt. Times are CLOCK_MONOTONIC, in
/// nanoseconds, and > 0.
struct StepSlot {
  std::int64_t pid;           // of the process that counts; 0: none yet
  std::int64_t steps;         // made in this attempt
  std::int64_t stepped_at;    // when the last one was made; 0: none was
  std::int64_t slowest;       // the longest time between two of the last 64 to 128 steps, in ns
  std::int64_t reported;      // 1 + the last step number that the script has told; 0: none
  std::int64_t busy_until;    // when an announced pause is over; 0: none was announced
  std::int64_t stack_signal;  // at which `pid` writes its stacks to kStackFile; 0: it does not
  std::int64_t step_time;     // the mean of the last steps, in ns; 0: not known
  char busy_with[64];         // what the pause is for: UTF-8, ends with a zero
};
static_assert(sizeof(StepSlot) == 128);

/// A *notice*: a signal that announces the end of the job, such as a person's Ctrl-C. A worker that
/// gets one saves, and exits with 0 or 75.
constexpr bool is_notice(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGUSR1 || signal == SIGUSR2;
}

/// How a worker ended.
struct WorkerEnd {
  int pid = 0;  // 0: it could not be started; then its status is 75, and it has nothing to save
  int exit_status = 0;  // undefined if a signal ended it
  int signal = 0;       // the signal that ended it; 0 if it exited
};

/// Whether a worker that ended in this way has saved, if it was told to.
constexpr bool has_saved(const WorkerEnd& worker) {
  const bool is_by_itself = worker.pid != 0 && worker.signal == 0;
  return is_by_itself && (worker.exit_status == kExitOk || worker.exit_status == kExitTryAgain);
}

/// Whether a notice may be the reason of its end: it has saved, or the signal itself ended it
/// because it has no handler.
constexpr bool may_come_of_notice(const WorkerEnd& worker) {
  return has_saved(worker) || is_notice(worker.signal);
}

// With which nodes authenticate each other. Not for workers, which print their environment.
inline constexpr char kAuth[] = "DDPRUN_AUTH";  // --auth
inline constexpr char kSecret[] = "DDPRUN_SECRET";
inline constexpr char kSecretFile[] = "DDPRUN_SECRET_FILE";

// Defaults for libraries, set unless the user sets them.
inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";
inline constexpr char kNcclAsyncErrorHandling[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kGlooInterface[] = "GLOO_SOCKET_IFNAME";
inline constexpr char kNcclInterface[] = "NCCL_SOCKET_IFNAME";
inline constexpr char kCudaVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

}  // namespace ddprun::contract
