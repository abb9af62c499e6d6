#pragma once

// The agent of one node: the shell around RendezvousNode. It owns the workers of this node, their
// store, their streams and the journal, and performs what the core decides.
//
// Everything here runs on the main thread.

#include "agent/core/launch_plan.hpp"
#include "agent/fence.hpp"
#include "agent/file_timer.hpp"
#include "agent/guard_client.hpp"
#include "agent/hang_detector.hpp"
#include "agent/job_announcement.hpp"
#include "agent/journal.hpp"
#include "agent/launch_directory.hpp"
#include "agent/local_workers.hpp"
#include "agent/memory_sampler.hpp"
#include "agent/notice_file.hpp"
#include "agent/rendezvous_network.hpp"
#include "agent/streams.hpp"
#include "agent/suspension_watch.hpp"
#include "agent/worker_interface.hpp"
#include "agent/worker_starter.hpp"
#include "agent/worker_steps.hpp"
#include "base/deadline.hpp"
#include "base/event_queue.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/rendezvous_node.hpp"

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

class Consoles;

class Agent {
 public:
  /// What was made ready before, because it may take long. `consoles` outlive the agent.
  struct Prepared {
    Consoles& consoles;
    LaunchDirectory directory;
    AuthKey key;
  };

  /// Opens the store's port. Starts no worker. `guard` outlives it; `inherited` is what workers get
  /// in addition to what we set. Fails with kInvalidArgument, kNotFound or kIo, naming the value.
  static Result<std::unique_ptr<Agent>> open(
      asio::io_context& context,
      const LaunchPlan& plan,
      GuardClient& guard,
      Prepared prepared,
      Inherited inherited);

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Runs the job, and yields the exit status. Unread output delays the exit by at most 2 s, a disk
  /// that does not respond by 4 s. REQUIRES: called once.
  asio::awaitable<int> run();

  /// A signal came that ends the job.
  void stop_by(int signal);

  /// Any other signal: passed to the workers that have a handler for it.
  void pass_on(int signal) { workers_.pass_on(signal); }

  /// `look` is called before a worker's death is handled, for what happened before it.
  void before_deaths(std::function<void()> look) { workers_.before_deaths(std::move(look)); }

  /// After run(): whether this node knows how the whole job ended, and is to report it.
  bool speaks_for_job() const { return speaks_for_job_; }
  /// Hosts of nodes that fell silent and did not come back, as far as this node led.
  const std::set<std::string>& silent_hosts() const { return silent_hosts_; }
  /// Records an event after the last one, and reports it.
  void record_after_end(std::string event, const std::string& text);
  /// The first signal that came to end the job; 0: none.
  int stopped_by() const { return stopped_by_; }

  /// SIGCHLD: a process below us has ended.
  void reap() { workers_.reap(); }

 private:
  struct Opened {
    Consoles& consoles;
    std::unique_ptr<Streams> streams;
    std::unique_ptr<WorkerStarter> starter;
    std::unique_ptr<Journal> journal;
    std::unique_ptr<RendezvousNetwork> network;
    std::string host;
  };

  Agent(
      asio::io_context& context,
      const LaunchPlan& plan,
      GuardClient& guard,
      Inherited inherited,
      Opened opened);

  asio::awaitable<void> run_job(std::string unfit);
  asio::awaitable<std::string> check_node();
  asio::awaitable<void> keep_time();
  asio::awaitable<void> end_waits(RoundId of);
  Result<void> open_fence();
  Result<void> open_timers();
  int wind_up(int status);
  void begin_sampling();
  std::string worker_interface(const Endpoint& master);
  std::string end_text(int status) const;

  void feed(RendezvousNode::Event event);
  void advance(const RendezvousNode::Event& event);
  void perform(const effects::Call& effect) { network_->call(effect); }
  void perform(const effects::Send& effect) {
    const auto* const heartbeat = std::get_if<Heartbeat>(&effect.message);
    if (heartbeat == nullptr) return network_->send(effect);
    network_->send({.to = effect.to, .message = steps_.added_to(*heartbeat)});
  }
  void perform(const effects::Close& effect) { network_->close(effect); }
  void perform(const effects::OpenLine& effect) { network_->open_line(effect); }
  void perform(const effects::ProbeLines& effect) { network_->probe_lines(effect); }
  void perform(const effects::ClaimFence& effect);
  void perform(const effects::SetLease& effect);
  void perform(const effects::BeginStore& effect) { network_->begin_store(effect); }
  void perform(const effects::StartWorkers& effect);
  void perform(const effects::StopWorkers& effect);
  void perform(const effects::KillWorkers& effect);
  void perform(const effects::Absence& effect);
  void perform(const effects::ShowFailure& effect);
  void perform(const effects::Note& effect);
  void perform(const effects::Finish& effect);
  void on_worker_news(const WorkerNews& news);
  void come_back();
  void leave(int exit_status);

  // More than twelve members: these are the parts of a node, each of which owns its state, and how
  // the job ends, as far as this node knows.
  asio::io_context& context_;
  const LaunchPlan plan_;
  GuardClient& guard_;
  std::string host_;
  Consoles& consoles_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<WorkerStarter> starter_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<RendezvousNetwork> network_;
  std::unique_ptr<Fence> fence_;                // none: not asked for
  std::unique_ptr<WorkerInterface> interface_;  // none: one node, or the user has chosen
  std::unique_ptr<FileTimer> timers_;           // none: not asked for
  std::unique_ptr<MemorySampler> sampler_;      // none: not asked for, or no round has begun here
  RendezvousNode node_;
  EventQueue<RendezvousNode::Event> events_;
  Effects effects_;  // of the event that is applied
  std::optional<int> exit_status_;
  std::string why_;  // the job ends, by its leader's report
  bool speaks_for_job_ = false;
  bool end_is_reported_ = false;  // why it ends; here, or elsewhere on the console that all share
  std::set<std::string> silent_hosts_;
  int stopped_by_ = 0;
  std::optional<int> late_signal_;  // that came when all had succeeded
  NoticeFile notice_file_;
  WorkerSteps steps_;
  SuspensionWatch suspension_;
  JobAnnouncement announcement_;
  Timer timer_;
  Timer finished_;  // never expires; cancelled by leave()
  TaskScope tasks_;
  LocalWorkers workers_;
  HangDetector hangs_;
};

}  // namespace ddprun
