#pragma once

// Many agents in one thread, as their leader sees them: each has a connection and a lifeline, says
// and answers what a real one does, and heartbeats. They have no workers and decide nothing.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/node_range.hpp"
#include "base/task_scope.hpp"
#include "base/time.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/core/policy.hpp"
#include "rendezvous/links.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class RendezvousFleet {
 public:
  struct Options {
    Endpoint leader;
    std::string job;
    NodeRange nodes{1, 1};
    int agents = 1;
    int max_restarts = 0;  // the leader's
  };

  /// From a worker's failure on one agent.
  struct Failure {
    std::vector<Duration> stopped;  // to the order to stop, on each agent
    Duration restarted{};           // to the start of the next round on the last one
  };

  RendezvousFleet(asio::io_context& context, Options options);

  /// Serves until it is cancelled. REQUIRES: called once.
  asio::awaitable<void> serve();

  // Each fails with kTimedOut if it is not over within half a minute, and with what the leader
  // did that ends the job.

  /// All connect at once. Yields when the last of them was told to start the first round.
  asio::awaitable<Result<Duration>> rank();
  asio::awaitable<Result<Failure>> fail_one();
  /// An agent dies. Yields when the last of the others was told to start the next round.
  asio::awaitable<Result<Duration>> lose_one();
  // How long each heartbeat of that time waited for its answer.
  asio::awaitable<Result<std::vector<Duration>>> send_heartbeats_for(Duration time);
  /// Until `over` expires or is cancelled.
  asio::awaitable<Result<std::vector<Duration>>> send_heartbeats_until(Timer& over);

  std::size_t agents() const { return agents_.size() - gone_; }
  Duration heartbeat_interval() const { return ddprun::heartbeat_interval(lease_); }

 private:
  struct Agent {
    NodeInfo node;
    std::optional<tcp::socket> line;
    bool is_gone = false;
    RoundId round;  // that it was offered last
    std::int64_t heartbeat = 0;
    std::int64_t heard = 0;
    TimePoint heartbeat_at;
    TimePoint due;  // its next heartbeat
  };

  asio::awaitable<void> keep_time();
  asio::awaitable<Result<void>> until(std::function<bool()> is_over);

  void handle(const Links::Event& event);
  void on(Agent& agent, const Welcome& welcome);
  void on(Agent& agent, const HeartbeatReply& reply);
  void on(Agent& agent, const OfferRound& offer);
  void on(Agent& agent, const StartRound& start);
  void on(Agent& agent, const StopRound& stop);
  void on(Agent& agent, const VerdictNews& verdict);
  void on(Agent& agent, const Refuse& refuse);
  template <class Other>
  void on(Agent& /*agent*/, const Other& /*nothing to do*/) {}

  void connected(Agent& agent);
  void open_line(Agent& agent, const Leadership& leadership);
  void heartbeat(Agent& agent);
  void set_next_heartbeat(Agent& agent, TimePoint due);
  void news(Agent& agent, WorkersState state, std::optional<FailureNews> failure = {});
  void send(const Agent& agent, const Message& message);
  void give_up(Error why);
  Agent& of(Link link) { return agents_[static_cast<std::size_t>(link) / 2]; }
  std::size_t index_of(const Agent& agent) const {
    return static_cast<std::size_t>(&agent - agents_.data());
  }
  Link link_of(const Agent& agent) const { return Link{2 * index_of(agent) + 1}; }

  const Options options_;
  Links links_;
  std::vector<Agent> agents_;
  std::size_t gone_ = 0;
  Duration lease_ = std::chrono::seconds(3);
  std::optional<Error> failed_;

  // Since the last of rank(), fail_one(), lose_one().
  std::size_t started_ = 0;
  TimePoint last_started_;
  std::vector<TimePoint> stopped_;

  std::vector<Duration> answered_;
  std::set<std::pair<TimePoint, std::size_t>> heartbeats_due_;
  Timer heartbeat_timer_;
  Timer changed_;  // its wait is ended when something has happened
};

}  // namespace ddprun
