#include "agent/hang_detector.hpp"

#include "agent/core/step_reports.hpp"
#include "agent/local_workers.hpp"
#include "agent/proc.hpp"
#include "agent/process.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/parse.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// Together less than the second within which a hang is to be reported.
constexpr auto kUntilStacksAreWritten = 250ms;
constexpr auto kBetweenGlances = 250ms;
constexpr auto kLate = 1s;
constexpr std::int64_t kWakeUpsOfActive = 3;  // between two glances; one is by our signal
constexpr std::size_t kStatBytesMax = 4'096;

struct Usage {
  char state = 'S';
  std::int64_t cpu_ticks = 0;  // of all threads, user and kernel
};

/// By proc(5).
Usage usage_of(pid_t pid) {
  constexpr std::size_t kUserTime = 11;  // after the name
  constexpr std::size_t kKernelTime = 12;
  Usage usage;
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), kStatBytesMax);
  if (!stat) return usage;
  const std::size_t name_end = stat->rfind(") ");
  if (name_end == std::string::npos) return usage;
  const auto fields = split(std::string_view(*stat).substr(name_end + 2), ' ');
  if (fields.size() <= kKernelTime || fields[0].empty()) return usage;
  usage.state = fields[0].front();
  usage.cpu_ticks = parse_int<std::int64_t>(fields[kUserTime]).value_or(0) +
                    parse_int<std::int64_t>(fields[kKernelTime]).value_or(0);
  return usage;
}

/// How often the main thread has waited; by proc(5).
std::int64_t wake_ups_of(pid_t pid) {
  constexpr std::string_view kName = "\nvoluntary_ctxt_switches:";
  const auto status = read_file(fmt::format("/proc/{}/status", pid), kStatBytesMax);
  const std::size_t at = status ? status->find(kName) : std::string::npos;
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(*status).substr(at + kName.size());
  return parse_int<std::int64_t>(trim(rest.substr(0, rest.find('\n')))).value_or(0);
}

/// The kernel hides it from those who may not trace the process.
std::string wait_channel_text(pid_t pid) {
  const std::string name = wait_channel(pid).data();
  return name == "?" || name == "0" ? "" : name;
}

/// Of NVIDIA or AMD.
bool has_gpus() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/kfd", F_OK) == 0;
}

/// Whether a process is the worker, or belongs to it.
bool is_of_worker(pid_t pid, pid_t worker) {
  return pid > 0 && (pid == worker || ::getsid(pid) == worker);
}

}  // namespace

HangDetector::HangDetector(
    asio::io_context& context, const LaunchPlan& plan, WorkerSteps& steps, LocalWorkers& workers)
    : plan_(plan), steps_(steps), workers_(workers), watch_(plan.hang), timer_(context, kNever) {}

void HangDetector::begin_round(const effects::StartWorkers& round) {
  round_ = round;
  watch_.begin_round(slot_time());
  set_timer();
}

void HangDetector::end_round() {
  watch_.end_round();
  set_timer();
}

void HangDetector::set_timer() {
  const auto due = watch_.due();
  timer_.expires_at(due ? Clock::now() + Duration(*due - slot_time()) : kNever);
}

asio::awaitable<void> HangDetector::keep_time() {
  for (;;) {
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (re_armed) continue;
    const std::int64_t now = slot_time();
    // This process was stopped, and so were the workers.
    if (Clock::now() - timer_.expiry() > kLate) {
      watch_.excuse(now);
      set_timer();
      continue;
    }
    const HangWatch::Finding finding = watch_.look(steps_.slots(), now);
    if (finding == HangWatch::Finding::kResumed) workers_.training_resumed();
    if (finding == HangWatch::Finding::kSilent) co_await examine();
    set_timer();
  }
}

asio::awaitable<void> HangDetector::examine() {
  const RoundId round = round_.round;
  Timer pause(co_await asio::this_coro::executor, kNever);
  ask_for_stacks();
  pause.expires_at(Clock::now() + kUntilStacksAreWritten);
  co_await pause.async_wait(kTuple);
  const std::vector<Glance> before = look();
  ask_for_stacks();
  pause.expires_at(Clock::now() + kBetweenGlances);
  co_await pause.async_wait(kTuple);
  std::vector<Glance> now = look();

  HangReport report;
  std::string stacks;
  const std::int64_t ticks_of_half = ::sysconf(_SC_CLK_TCK) * kBetweenGlances.count() / 1000 / 2;
  for (std::size_t i = 0; i < now.size(); ++i) {
    HungWorker& worker = now[i].worker;
    if (worker.frames.empty()) worker.frames = before[i].worker.frames;
    worker.moves = worker.frames != before[i].worker.frames;
    worker.computes = worker.moves || now[i].cpu_ticks - before[i].cpu_ticks >= ticks_of_half;
    worker.wakes = now[i].wake_ups - before[i].wake_ups >= kWakeUpsOfActive;
    const std::string& text = now[i].stacks.empty() ? before[i].stacks : now[i].stacks;
    stacks += fmt::format(
        "rank {} (local rank {}, pid {}) {}, at step {}\n{}\n",
        worker.rank,
        worker.local_rank,
        worker.pid,
        worker.activity(),
        worker.step,
        text);
    report.workers.push_back(worker);
  }
  // The round may have ended, and a step may have been made.
  if (round_.round != round) co_return;
  const std::int64_t at = slot_time();
  if (watch_.look(steps_.slots(), at) != HangWatch::Finding::kSilent) co_return;
  report.has_others = round_.place.group_size > 1;
  if (report.is_debugged()) {
    watch_.excuse(at);
    co_return;
  }
  const auto judgement = report.is_elsewhere()         ? HangWatch::Judgement::kElsewhere
                         : report.computes(has_gpus()) ? HangWatch::Judgement::kComputes
                                                       : HangWatch::Judgement::kHangs;
  if (!watch_.judged(judgement, at)) co_return;
  report.title = plan_.command.title;
  report.host = host_name();
  report.attempt = round_.progress.attempt;
  report.silent_for = watch_.silent_for(at);
  report.slowest = watch_.slowest();
  report.restarts = plan_.hang.restarts;
  report.has_restarts = plan_.max_restarts > 0;
  workers_.hung(report, std::move(stacks));
}

/// Its handler runs in the main thread, whatever that waits for, unless no signal reaches it.
void HangDetector::ask_for_stacks() const {
  const auto slots = steps_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto pid = static_cast<pid_t>(slots[i].pid);
    const auto signal = static_cast<int>(slots[i].stack_signal);
    const bool is_asked = signal > 0 && signal < NSIG &&
                          is_of_worker(pid, workers_.pid_of(static_cast<int>(i))) &&
                          has_handler(pid, signal);
    if (is_asked) ::syscall(SYS_tgkill, pid, pid, signal);
  }
}

std::vector<HangDetector::Glance> HangDetector::look() {
  std::vector<Glance> seen;
  const auto slots = steps_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Glance& glance = seen.emplace_back();
    HungWorker& worker = glance.worker;
    worker.local_rank = static_cast<int>(i);
    worker.rank = round_.place.first_rank + worker.local_rank;
    worker.step = step_of(slots[i]);
    worker.pid = workers_.pid_of(worker.local_rank);
    if (worker.pid == 0) continue;
    const auto counting = static_cast<pid_t>(slots[i].pid);
    if (is_of_worker(counting, worker.pid)) worker.pid = counting;
    const Usage usage = usage_of(worker.pid);
    worker.state = usage.state;
    glance.cpu_ticks = usage.cpu_ticks;
    glance.wake_ups = wake_ups_of(worker.pid);
    worker.wait_channel = wait_channel_text(worker.pid);
    glance.stacks = steps_.take_stacks(worker.local_rank);
    worker.frames = main_thread_of(glance.stacks);
  }
  return seen;
}

}  // namespace ddprun
