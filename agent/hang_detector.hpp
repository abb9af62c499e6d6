#pragma once

// Finds out that training hangs, and what each worker of this node does then: asks each for its
// Python stacks, twice, and reads in /proc what the kernel says of it. HangWatch decides.
//
// Everything here runs on the main thread.

#include "agent/core/hang_report.hpp"
#include "agent/core/hang_watch.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/worker_steps.hpp"
#include "base/deadline.hpp"
#include "rendezvous/core/effects.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

class LocalWorkers;

class HangDetector {
 public:
  /// All of these outlive it. `workers` is told of a hang, and when it is over.
  HangDetector(
      asio::io_context& context, const LaunchPlan& plan, WorkerSteps& steps, LocalWorkers& workers);

  /// The workers of this round are being started, and their slots are new.
  void begin_round(const effects::StartWorkers& round);
  /// They end, or are stopped.
  void end_round();

  /// Until cancelled.
  asio::awaitable<void> keep_time();

 private:
  /// What was seen of a worker a moment ago.
  struct Glance {
    HungWorker worker;
    std::int64_t cpu_ticks = 0;
    std::int64_t wake_ups = 0;  // of the main thread
    std::string stacks;
  };

  asio::awaitable<void> examine();
  void ask_for_stacks() const;
  std::vector<Glance> look();
  void set_timer();

  const LaunchPlan& plan_;
  WorkerSteps& steps_;
  LocalWorkers& workers_;
  HangWatch watch_;
  effects::StartWorkers round_;
  Timer timer_;
};

}  // namespace ddprun
