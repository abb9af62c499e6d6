#include "agent/worker_steps.hpp"

#include "agent/core/step_reports.hpp"

#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <type_traits>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ddprun {
namespace {

// What a thousand nodes tell of eight workers each would take the leader longer than all else.
constexpr int kNodesOfSmallJob = 64;
constexpr Duration kToldEvery = std::chrono::seconds(1);

/// Whether enough descriptors are left for what the job cannot do without. The kernel gives the
/// lowest that is free.
bool is_to_spare(const Descriptor& file, std::size_t workers) {
  constexpr std::size_t kNeeded = 32;
  constexpr std::size_t kNeededByAWorker = 8;
  rlimit limit{};
  if (!file || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  return static_cast<rlim_t>(file.get()) + kNeeded + kNeededByAWorker * workers < limit.rlim_cur;
}

std::string path_of(const Descriptor& file) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
}

/// Each number as a whole, though another process may be writing it.
contract::StepSlot read_slot(const contract::StepSlot& from) {
  contract::StepSlot slot{};
  const auto read = [](const std::int64_t& number) {
    return __atomic_load_n(&number, __ATOMIC_RELAXED);
  };
  slot.pid = read(from.pid);
  slot.steps = read(from.steps);
  slot.stepped_at = read(from.stepped_at);
  slot.slowest = read(from.slowest);
  slot.reported = read(from.reported);
  slot.busy_until = read(from.busy_until);
  slot.stack_signal = read(from.stack_signal);
  slot.step_time = read(from.step_time);
  std::memcpy(slot.busy_with, from.busy_with, sizeof(slot.busy_with));
  return slot;
}

}  // namespace

std::int64_t slot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  constexpr std::int64_t kSecond = 1'000'000'000;
  return now.tv_sec * kSecond + now.tv_nsec;
}

void WorkerSteps::begin_round(int nodes, bool keeps_stacks) {
  forget();
  told_every_ = nodes > kNodesOfSmallJob ? kToldEvery : Duration();
  Descriptor file(::memfd_create("ddprun-steps", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<off_t>(workers_ * sizeof(contract::StepSlot));
  // A worker that made the file shorter would end this process.
  const bool is_ready = is_to_spare(file, workers_) && ::ftruncate(file.get(), size) == 0 &&
                        ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (!is_ready) return;
  void* const mapped =
      ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = static_cast<contract::StepSlot*>(mapped);
  file_ = std::move(file);
  path_ = path_of(file_);
  for (std::size_t i = 0; keeps_stacks && i < workers_; ++i) {
    Descriptor& stacks = stacks_.emplace_back(::memfd_create("ddprun-stacks", MFD_CLOEXEC));
    if (!is_to_spare(stacks, workers_)) stacks.reset();
  }
}

std::vector<StepReport> WorkerSteps::read() const {
  return step_reports(slots(), slot_time());
}

std::string WorkerSteps::stack_path(int local_rank) const {
  const auto i = static_cast<std::size_t>(local_rank);
  return i < stacks_.size() && stacks_[i] ? path_of(stacks_[i]) : "";
}

std::string WorkerSteps::take_stacks(int local_rank) {
  const auto i = static_cast<std::size_t>(local_rank);
  if (i >= stacks_.size() || !stacks_[i]) return "";
  std::string text(kStackBytesMax, '\0');
  const ssize_t size = ::pread(stacks_[i].get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  if (::ftruncate(stacks_[i].get(), 0) != 0) return "";  // what comes next would stand behind it
  return text;
}

std::vector<contract::StepSlot> WorkerSteps::slots() const {
  std::vector<contract::StepSlot> slots;
  if (mapped_ == nullptr) return slots;
  slots.reserve(workers_);
  for (std::size_t i = 0; i < workers_; ++i) {
    slots.push_back(read_slot(mapped_[i]));
  }
  return slots;
}

Heartbeat WorkerSteps::added_to(Heartbeat heartbeat) {
  const std::int64_t now = slot_time();
  if (now - told_at_ < told_every_.count()) return heartbeat;
  told_at_ = now;
  heartbeat.steps = read();
  if (heartbeat.steps->empty()) heartbeat.steps.reset();
  return heartbeat;
}

void WorkerSteps::forget() {
  if (mapped_ != nullptr) ::munmap(mapped_, workers_ * sizeof(contract::StepSlot));
  mapped_ = nullptr;
  file_.reset();
  path_.clear();
  stacks_.clear();
}

}  // namespace ddprun
