#pragma once

// --node-check: a program that says by its exit status whether this node is fit to run workers.

#include "agent/core/launch_plan.hpp"
#include "agent/core/process_end.hpp"
#include "agent/worker_group.hpp"
#include "base/deadline.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ddprun {

class NodeCheck {
 public:
  /// Why the node is unfit, for people; empty: it is fit.
  using OnDone = std::function<void(std::string why)>;

  /// `plan` and `reaper` outlive it. `environment` is the check's, all of it.
  NodeCheck(
      asio::io_context& context,
      const NodeCheckPlan& plan,
      std::vector<std::string> environment,
      WorkerGroup& reaper);
  ~NodeCheck();
  NodeCheck(const NodeCheck&) = delete;
  NodeCheck& operator=(const NodeCheck&) = delete;

  /// Whether there is one to be run.
  bool is_wanted() const { return !plan_.arguments.empty(); }

  /// Starts it; `on_done` is called once, soon or within the limit, unless it is abandoned.
  /// REQUIRES: is_wanted(), and no other one runs.
  void begin(OnDone on_done);

  bool is_running() const { return static_cast<bool>(on_done_); }

  /// Kills it; nobody is told what it came to.
  void abandon();

  /// Kills the check that takes too long, until cancelled.
  asio::awaitable<void> keep_time();

 private:
  void started(std::int64_t number, const Result<pid_t>& pid);
  void ended(ProcessEnd end);
  void kill();
  void conclude(std::string why);
  std::string last_line() const;
  bool is_present(std::int64_t number) const { return number == checks_ && is_running(); }

  const NodeCheckPlan& plan_;
  std::vector<std::string> environment_;
  WorkerGroup& reaper_;
  Timer limit_;
  Descriptor output_;
  std::int64_t checks_ = 0;  // so far; a late answer about an earlier one is ignored
  std::int64_t start_ = 0;   // the order to start the present one
  pid_t pid_ = 0;            // 0: it is not running, or being started
  bool is_late_ = false;
  OnDone on_done_;
};

}  // namespace ddprun
