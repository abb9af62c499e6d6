#pragma once

// Reports the state of this node's workers to the rendezvous. No worker starts again before the
// leader knows that all have stopped, so that is reported only when everything is known that
// decides about the next attempt: the last line of a worker that crashed on start, and the node
// check (--node-check).

#include "agent/core/round_end.hpp"
#include "agent/node_check.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/messages.hpp"
#include "rendezvous/errand.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

class NewsSender {
 public:
  struct Callbacks {
    std::function<void(const WorkerNews&)> news;
    std::function<void(const std::string& unfit)> checked;  // empty: the node is fit
  };

  /// `check`, `tasks` and `end`, which gets the last line, outlive it.
  NewsSender(NodeCheck& check, TaskScope& tasks, RoundEnd& end, Callbacks callbacks)
      : check_(check), tasks_(tasks), end_(end), callbacks_(std::move(callbacks)) {}

  void send(WorkerNews news);
  /// The same once the last line is read and the node check is done.
  void send_stopped(WorkerNews news);

  /// `line` is the last line of `end.failure`, in place of an earlier one; null: none is read.
  void expect_last_line(std::shared_ptr<Errand<std::string>> line);

  /// Starts the node check; `on_done` gets why the node is unfit, or nothing. REQUIRES: as for
  /// NodeCheck::begin().
  void check_node(NodeCheck::OnDone on_done);

  /// `end.order` has changed: what no longer matters is not waited for.
  void heed_order();
  /// Waits for nothing any more.
  void stop_waiting();
  /// Kills the node check. What waits for it is sent.
  void abandon_check();

 private:
  asio::awaitable<void> await_last_line(std::shared_ptr<Errand<std::string>> line);
  void send_if_complete();

  NodeCheck& check_;
  TaskScope& tasks_;
  RoundEnd& end_;
  Callbacks callbacks_;
  std::string unfit_;               // why, by the newest node check; empty: the node is fit
  WorkerNews sent_;                 // the newest
  std::optional<WorkerNews> held_;  // that the workers have stopped, until all is known
  std::shared_ptr<Errand<std::string>> last_line_;  // null: not waited for
};

}  // namespace ddprun
