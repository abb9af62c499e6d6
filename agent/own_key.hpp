#pragma once

#include "agent/core/launch_plan.hpp"
#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/task_scope.hpp"
#include "rendezvous/core/auth_proof.hpp"
#include "rendezvous/errand.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace ddprun {

/// The key with which this node authenticates others. A thread makes it while the node starts,
/// since that loads libraries and asks munged, which may hang.
class OwnKey {
 public:
  /// Begins, if `plan`, which outlives it, needs a key. Fails with kIo if there can be no more
  /// threads.
  static Result<OwnKey> begin(const LaunchPlan& plan);

  /// Waits until it is made; not if the plan needs none, and not for longer than MUNGE may take.
  /// Then ends `all`. If it is cancelled, made() stays none.
  asio::awaitable<void> wait(TaskScope& all);

  /// The key; none before wait() has ended. With --auth auto that of AuthMethod::kNone if MUNGE
  /// does not answer. Otherwise fails as make_auth_key() does, or with kTimedOut.
  const std::optional<Result<AuthKey>>& made() const { return made_; }

 private:
  OwnKey(const LaunchPlan& plan, std::shared_ptr<Errand<AuthKey>> making)
      : plan_(&plan), making_(std::move(making)) {}

  const LaunchPlan* plan_;
  std::shared_ptr<Errand<AuthKey>> making_;  // none: no key is needed
  std::optional<Result<AuthKey>> made_;
};

/// Tells a person, once for each job, if nodes prove nothing because there is neither a secret nor
/// MUNGE, although other machines can connect to `port`: on a terminal, and in a Slurm step, where
/// MUNGE should answer.
void report_if_open(const LaunchPlan& plan, const AuthKey& key, std::uint16_t port);

}  // namespace ddprun
