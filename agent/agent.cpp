#include "agent/agent.hpp"

#include "agent/console.hpp"
#include "agent/core/failure_report.hpp"
#include "agent/core/rendezvous_policy.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/log.hpp"
#include "base/signal_name.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>

#include <unistd.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

/// At the end, after the workers' output, which may have taken all of kEndPatience.
constexpr auto kLastDiskPatience = 250ms;
constexpr auto kWaitsAfterStop = 1s;
constexpr auto kInterfacePatience = 250ms;  // with a slow name service, before the rendezvous

/// Different in each launch.
std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace

Result<std::unique_ptr<Agent>> Agent::open(
    asio::io_context& context,
    const LaunchPlan& plan,
    GuardClient& guard,
    Prepared prepared,
    Inherited inherited) {
  auto network = RendezvousNetwork::open(context, plan, guard, std::move(prepared.key));
  if (!network) return network.error();
  auto starter = WorkerStarter::open(context);
  if (!starter) return starter.error();
  const auto& directory = prepared.directory.path;
  auto journal = Journal::open(directory.empty() ? directory : directory / kJournalName);
  if (!journal) return journal.error();
  auto streams = Streams::open(plan, std::move(prepared.directory), prepared.consoles);
  if (!streams) return streams.error();
  std::unique_ptr<Agent> agent(new Agent(
      context,
      plan,
      guard,
      std::move(inherited),
      {.consoles = prepared.consoles,
       .streams = *std::move(streams),
       .starter = *std::move(starter),
       .journal = *std::move(journal),
       .network = *std::move(network),
       .host = host_name()}));
  auto opened = agent->open_fence();
  if (opened) opened = agent->open_timers();
  if (!opened) return opened.error();
  return agent;
}

Agent::Agent(
    asio::io_context& context,
    const LaunchPlan& plan,
    GuardClient& guard,
    Inherited inherited,
    Opened opened)
    : context_(context),
      plan_(plan),
      guard_(guard),
      host_(std::move(opened.host)),
      consoles_(opened.consoles),
      streams_(std::move(opened.streams)),
      starter_(std::move(opened.starter)),
      journal_(std::move(opened.journal)),
      network_(std::move(opened.network)),
      node_(rendezvous_policy(plan_, network_->own_node(host_, random_number()))),
      steps_(plan_.workers),
      suspension_(
          context,
          node_.policy().lease,
          {.is_leader_dead = [this] { return node_.member().is_leader_dead(); },
           .lapsed =
               [this] {
                 if (stopped_by_ == 0 && !workers_.has_succeeded()) come_back();
               }}),
      timer_(context, kNever),
      finished_(context, kNever),
      tasks_(context.get_executor()),
      workers_(
          context,
          {.plan = plan_,
           .host = host_,
           .streams = *streams_,
           .starter = *starter_,
           .journal = *journal_,
           .notice_file = notice_file_,
           .steps = steps_,
           .tasks = tasks_},
          std::move(inherited),
          {.news = [this](const WorkerNews& news) { on_worker_news(news); },
           .failure_read =
               [this](FailureText text) {
                 feed(RendezvousNode::FailureRead{.text = std::move(text)});
               },
           .gave_up =
               [this](int status) {
                 guard_.give_up();
                 leave(status);
               }}),
      hangs_(context, plan_, steps_, workers_) {
  // Workers inherit the user's choice from here.
  const char* const chosen =
      std::getenv(contract::kGlooInterface);  // NOLINT(concurrency-mt-unsafe)
  if (plan_.rendezvous.has_others() && chosen == nullptr) {
    interface_ = std::make_unique<WorkerInterface>(context, host_);
  }
  network_->listen(
      [this](RendezvousNode::Event event) { feed(std::move(event)); },
      StatusPages(node_, DDPRUN_VERSION, [this] { return steps_.read(); }));
}

Agent::~Agent() = default;

Result<void> Agent::open_fence() {
  if (!plan_.rendezvous.has_fence()) return {};
  auto fence = Fence::open(
      context_,
      plan_.rendezvous.fence_directory,
      node_.policy().job,
      [this](const effects::ClaimFence& claim, Incarnation holder) {
        feed(RendezvousNode::FenceHeld{
            .instance = claim.instance, .round = claim.round, .holder = holder});
      });
  if (!fence) return fence.error();
  fence_ = *std::move(fence);
  return {};
}

Result<void> Agent::open_timers() {
  if (!plan_.has_file_timer) return {};
  const char* const asked = std::getenv(contract::kTimerFile);  // NOLINT(concurrency-mt-unsafe)
  auto timers = FileTimer::open(
      context_, asked == nullptr ? "" : asked, [this](const FileTimerRequest& timer) {
        workers_.timer_expired(timer);
      });
  if (!timers) return timers.error();
  timers_ = *std::move(timers);
  workers_.use_timers(*timers_);
  return {};
}

asio::awaitable<int> Agent::run() {
  tasks_.spawn(starter_->serve());
  workers_.preload();
  if (interface_) {
    // Otherwise a round could begin first, and its workers would get an interface by chance.
    tasks_.spawn(interface_->serve());
    co_await interface_->first_answer(kInterfacePatience);
  }
  // Before it connects to other nodes, whose deadlines would run meanwhile.
  std::string unfit;
  if (workers_.checks_node()) {
    tasks_.spawn(workers_.keep_check_time());
    unfit = co_await check_node();
  }
  network_->serve_in(tasks_);
  tasks_.spawn(keep_time());
  tasks_.spawn(suspension_.heed_signals());
  tasks_.spawn(suspension_.await_lapse());
  if (fence_) tasks_.spawn(fence_->watch());
  tasks_.spawn(workers_.keep_time());
  tasks_.spawn(hangs_.keep_time());
  if (timers_) {
    tasks_.spawn(timers_->serve());
    tasks_.spawn(timers_->keep_time());
  }
  tasks_.spawn(run_job(std::move(unfit)));
  co_await tasks_.join();  // throws what one of them threw; the kernel then ends the workers
  co_return exit_status_ ? wind_up(*exit_status_) : kExitDefect;
}

asio::awaitable<void> Agent::run_job(std::string unfit) {
  JournalEntry started = workers_.entry("job_started");
  started.text = plan_.command.title;
  started.host = host_;
  started.python = plan_.command.interpreter;
  journal_->record(started);
  // It is set if a signal came first.
  if (!exit_status_) feed(RendezvousNode::Begin{.unfit = std::move(unfit)});
  while (!exit_status_) {
    co_await finished_.async_wait(kTuple);
  }
  tasks_.cancel();
}

/// Why this node should run no workers; empty: it may.
asio::awaitable<std::string> Agent::check_node() {
  std::optional<std::string> unfit;
  workers_.check_node([this, &unfit](std::string why) {
    unfit = std::move(why);
    finished_.cancel();
  });
  while (!unfit && !exit_status_) {
    co_await finished_.async_wait(kTuple);
  }
  if (!unfit) workers_.abandon_check();
  co_return unfit.value_or("");
}

/// Gives all output time to arrive; each reader and each disk may be stuck.
int Agent::wind_up(int status) {
  workers_.finish(status);
  if (status == kExitOk && workers_.keeps_leftovers()) guard_.keep_leftovers();
  // A worker that SIGKILL did not end keeps its pipes open.
  const TimePoint end_by = Clock::now() + (guard_.gave_up() ? Duration() : Duration(kEndPatience));
  if (sampler_) sampler_->finish(end_by);
  streams_->finish(end_by);
  if (stopped_by_ != 0 && !end_is_reported_) journal_->report(end_text(status));
  bool disk_responds = journal_->flush(std::max(end_by, Clock::now()) + kLastDiskPatience);
  for (const int stuck : consoles_.flush(kEndPatience)) {
    JournalEntry lost = workers_.entry("output_lost");
    lost.text = stuck == STDOUT_FILENO ? "stdout" : "stderr";
    journal_->record(lost);
  }
  announcement_.remove(*journal_);
  JournalEntry ended = workers_.entry("job_ended");
  ended.exit_status = status;
  ended.lost_nodes.assign(silent_hosts_.begin(), silent_hosts_.end());
  journal_->record(ended);
  journal_->post(
      [directory = streams_->removable(status == kExitOk)] { remove_launch_directory(directory); });
  if (disk_responds) disk_responds = journal_->flush(Clock::now() + kEndPatience);
  if (!disk_responds)
    report("the disk of the log directory does not respond; the last events are lost");
  return status;
}

void Agent::record_after_end(std::string event, const std::string& text) {
  JournalEntry entry = workers_.entry(std::move(event));
  entry.text = text;
  journal_->record(entry);
  static_cast<void>(journal_->flush(Clock::now() + kEndPatience));
  report("{}", text);
}

std::string Agent::end_text(int status) const {
  const bool is_notice = contract::is_notice(stopped_by_);
  const bool has_saved = is_notice && status == plan_.notice.exit_status;
  std::string text = fmt::format("told to stop by {}", signal_name(stopped_by_));
  if (!plan_.slurm_step.empty() && is_notice && !has_saved && !why_.empty()) text = why_;
  const char* const workers = !guard_.took_part() ? "no worker had started"
                              : guard_.gave_up()  ? "not all workers have ended"
                              : has_saved         ? "all workers have saved and ended"
                                                  : "all workers have ended";
  return fmt::format("{}; {}; exit status {}", text, workers, status);
}

void Agent::stop_by(int signal) {
  JournalEntry entry = workers_.entry("told_to_stop");
  entry.signal = signal;
  journal_->record(entry);
  if (stopped_by_ == 0) stopped_by_ = signal;
  const bool is_at_once = workers_.signalled(signal);
  // All workers have exited with 0; what they left behind is ended first.
  if (workers_.has_succeeded()) {
    late_signal_ = signal;
    return;
  }
  feed(RendezvousNode::Signalled{
      .signal = is_at_once ? SIGKILL : signal, .whole_job = !plan_.slurm_step.empty()});
}

void Agent::on_worker_news(const WorkerNews& news) {
  const bool run = is_under_way(news.state);
  if (!run) guard_.workers_run(false);
  if (news.state == WorkersState::kRunning) {
    announcement_.write(plan_, workers_.master(), *journal_);
  } else {
    hangs_.end_round();
  }
  feed(RendezvousNode::Workers{.news = news});
  if (run || !late_signal_) return;
  const int signal = *late_signal_;
  late_signal_.reset();
  feed(RendezvousNode::Signalled{.signal = signal, .whole_job = !plan_.slurm_step.empty()});
}

void Agent::feed(RendezvousNode::Event event) {
  const bool is_done =
      events_.run(std::move(event), [this](const RendezvousNode::Event& next) { advance(next); });
  if (!is_done) return;
  // An earlier deadline ends keep_time's wait. A later one is left to it: re-arming the timer at
  // each message would cost more than one early Tick.
  const TimePoint next = node_.next_deadline().value_or(kNever);
  if (next < timer_.expiry()) timer_.expires_at(next);
}

void Agent::advance(const RendezvousNode::Event& event) {
  if (exit_status_) return;
  effects_.clear();
  node_.apply(event, Clock::now(), effects_);
  for (const auto& effect : effects_) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

asio::awaitable<void> Agent::keep_time() {
  for (;;) {
    // What was due before is due now, so that it does not look late, as after a suspension.
    timer_.expires_at(std::max(node_.next_deadline().value_or(kNever), Clock::now()));
    const auto [re_armed] = co_await timer_.async_wait(kTuple);
    if (re_armed) continue;
    suspension_.heed_delay(timer_.expiry());
    feed(RendezvousNode::Tick{});
  }
}

/// Leaves, and starts again without a memory of the job, like a machine that was switched off. If
/// all nodes slept, those that did the same know no leader to wait for.
void Agent::come_back() {
  guard_.return_after_end();
  workers_.kill();
  leave(kExitTryAgain);
}

void Agent::perform(const effects::ClaimFence& effect) {
  if (fence_) fence_->claim(effect);
}

void Agent::perform(const effects::SetLease& effect) {
  suspension_.set_lease(effect.until);
  // If the agent does not kill the workers in time, the guard does, a little later.
  const Duration after = node_.policy().margin / 2;
  guard_.allow_until(effect.until == kNever ? kNever : effect.until + after);
}

void Agent::perform(const effects::StartWorkers& effect) {
  guard_.workers_run(true);  // before the lease is checked: from here on the guard keeps it
  if (suspension_.has_lease()) {
    effects::StartWorkers round = effect;
    round.master = network_->master_of_round(effect.master);
    // A leader's followers start their workers meanwhile.
    network_->send_written();
    workers_.start(round, network_->lines_for_workers(), worker_interface(round.master));
    hangs_.begin_round(round);
    network_->advertise();
    return begin_sampling();
  }
  WorkerNews none;
  none.round = effect.round;
  on_worker_news(none);
}

/// Empty: Gloo and NCCL choose well by themselves.
std::string Agent::worker_interface(const Endpoint& master) {
  if (!interface_) return {};
  const auto choice = interface_->choose(network_->own_address(master));
  return choice ? choice->name : "";
}

/// From the first workers to the end of the job.
void Agent::begin_sampling() {
  if (plan_.memory_log.directory.empty() || sampler_) return;
  auto sampler = MemorySampler::start(context_, plan_, host_);
  if (!sampler) return spdlog::warn("--memory-log: {}", sampler.error().detail);
  sampler_ = *std::move(sampler);
  tasks_.spawn(sampler_->run());
}

void Agent::perform(const effects::StopWorkers& effect) {
  hangs_.end_round();
  workers_.stop(effect.order, plan_.shares_console && node_.coordinator() == nullptr);
  if (effect.order.culprit && effect.order.notice == 0) tasks_.spawn(end_waits(effect.order.round));
}

/// A worker that waits in the store for one that has failed, as in init_process_group, does not
/// even run Python's handler of SIGTERM: it waits until its grace is over. One that has no handler
/// has ended before this.
asio::awaitable<void> Agent::end_waits(RoundId of) {
  Timer stopped(co_await asio::this_coro::executor, Clock::now() + kWaitsAfterStop);
  co_await stopped.async_wait(kTuple);
  if (workers_.round() == of) network_->end_waits();
}

void Agent::perform(const effects::KillWorkers& effect) {
  // Not once it was told to end: Slurm sends SIGCONT before each SIGTERM.
  if (suspension_.ends_lease() && stopped_by_ == 0) return come_back();
  if (!effect.is_reported_later) {
    journal_->report(fmt::format(
        "{}, so the workers of this node are killed; next: restarting them once enough nodes have "
        "joined",
        effect.why));
  }
  workers_.kill();
}

void Agent::perform(const effects::Absence& effect) {
  if (effect.is_over) {
    silent_hosts_.erase(effect.host);
  } else {
    silent_hosts_.insert(effect.host);
  }
}

void Agent::perform(const effects::ShowFailure& effect) {
  journal_->report_lines(failure_output(effect.host, effect.failure));
}

void Agent::perform(const effects::Note& effect) {
  spdlog::log(effect.is_for_all ? spdlog::level::warn : spdlog::level::info, "{}", effect.text);
}

void Agent::perform(const effects::Finish& effect) {
  why_ = effect.why;
  speaks_for_job_ = effect.speaks_for_job;
  end_is_reported_ = effect.is_reported_elsewhere && plan_.shares_console;
  const bool is_known =
      effect.why.empty() || end_is_reported_ || stopped_by_ != 0 || workers_.has_reported_end();
  if (!is_known) {
    journal_->report(fmt::format("{}; exit status {}", effect.why, effect.exit_status));
    end_is_reported_ = true;  // also if a signal comes while the rest of the output is written
  }
  leave(effect.exit_status);
}

void Agent::leave(int exit_status) {
  exit_status_ = exit_status;
  network_->stop_advertising();
  finished_.cancel();
}

}  // namespace ddprun
