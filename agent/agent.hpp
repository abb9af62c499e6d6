#pragma once

// The agent of one node: the shell around RendezvousNode. It owns the workers of this node, the
// store they meet at, their streams and the journal, and performs what the core decides.
//
// Everything here runs on the main thread.

#include "agent/core/launch_plan.hpp"
#include "agent/fence.hpp"
#include "agent/file_timer.hpp"
#include "agent/guard_client.hpp"
#include "agent/journal.hpp"
#include "agent/local_workers.hpp"
#include "agent/memory_sampler.hpp"
#include "agent/notice_file.hpp"
#include "agent/rendezvous_network.hpp"
#include "agent/resumption.hpp"
#include "agent/streams.hpp"
#include "agent/worker_interface.hpp"
#include "base/deadline.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/rendezvous_node.hpp"
#include "rendezvous/job_files.hpp"

#include <boost/asio/io_context.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

class Consoles;

class Agent {
 public:
  /// Opens the log directory and the store's port, and has log lines go by a thread of their own;
  /// starts no worker. `guard` outlives it; `inherited` is what workers get beside what we set.
  /// Fails with kInvalidArgument, kNotFound or kIo, naming the value.
  static Result<std::unique_ptr<Agent>> open(
      asio::io_context& context, const LaunchPlan& plan, GuardClient& guard, Inherited inherited);

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// The job, from first to last. Yields the exit status. What nobody reads, and what a disk does
  /// not take, holds up the end by two seconds each. REQUIRES: called once.
  asio::awaitable<int> run();

  /// One of the signals that end the job came.
  void stop_by(int signal);

  /// A signal that is none of those: passed to the workers that have a handler for it.
  void pass_on(int signal) { workers_.pass_on(signal); }

  /// Called before a worker's death is looked at, for what came before it.
  void before_deaths(std::function<void()> look) { workers_.before_deaths(std::move(look)); }

  /// Once run() is over: whether this node knows how the whole job ended, and is the one to say so.
  bool speaks_for_job() const { return speaks_for_job_; }
  /// Of those that fell silent and did not come back, the hosts, as far as this node led.
  const std::set<std::string>& silent_hosts() const { return silent_hosts_; }
  /// An event behind the last one, which people are told as well.
  void record_after_end(std::string event, const std::string& text);
  /// The first signal that came to end the job; 0: none.
  int stopped_by() const { return stopped_by_; }

  /// SIGCHLD: somebody below us has ended.
  void reap() { workers_.reap(); }

 private:
  struct Opened {
    std::unique_ptr<Consoles> consoles;
    std::unique_ptr<Streams> streams;
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
  asio::awaitable<void> heed_resumption();
  asio::awaitable<void> await_lapse();
  Result<void> open_fence();
  Result<void> open_timers();
  int wind_up(int status);
  void begin_sampling();
  void announce(const Endpoint& leader);
  std::string worker_interface(const Endpoint& master);
  std::string last_words(int status) const;

  void feed(RendezvousNode::Event event);
  void advance(const RendezvousNode::Event& event);
  void perform(const effects::Call& effect) { network_->call(effect); }
  void perform(const effects::Send& effect) { network_->send(effect); }
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
  void workers_told(const WorkerNews& news);
  void resumed(TimePoint now);
  bool was_suspended_under_lease();
  void come_back();
  void leave(int exit_status);

  asio::io_context& context_;
  const LaunchPlan plan_;
  GuardClient& guard_;
  std::string host_;
  std::unique_ptr<Consoles> consoles_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<RendezvousNetwork> network_;
  std::unique_ptr<Fence> fence_;                // none: not asked for
  std::unique_ptr<WorkerInterface> interface_;  // none: one node, or the user has chosen
  std::unique_ptr<FileTimer> timers_;           // none: not asked for
  std::unique_ptr<MemorySampler> sampler_;      // none: not asked for, or no round has begun here
  RendezvousNode node_;
  std::deque<RendezvousNode::Event> events_;  // that arose while effects were performed
  Effects effects_;                           // of the event that is applied
  bool feeding_ = false;
  TimePoint lease_until_;
  Resumption resumption_;
  TimePoint resumed_at_ = TimePoint::min();
  std::optional<int> exit_status_;
  std::string why_;  // the job ends, as its leader says
  bool speaks_for_job_ = false;
  bool is_said_elsewhere_ = false;  // why it ends, on the console that all share
  std::set<std::string> silent_hosts_;
  int stopped_by_ = 0;
  std::optional<int> late_signal_;  // that came when all had succeeded
  NoticeFile notice_file_;
  Timer lapse_;                           // after a suspension: the end of the lease
  std::shared_ptr<OwnJobFile> job_file_;  // with the thread that writes it
  Timer timer_;
  Timer finished_;  // never expires; cancelled by leave()
  TaskScope tasks_;
  LocalWorkers workers_;
};

}  // namespace ddprun
