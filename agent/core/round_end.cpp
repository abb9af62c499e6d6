#include "agent/core/round_end.hpp"

#include "base/check.hpp"
#include "base/exit_status.hpp"
#include "rendezvous/core/crash_loop.hpp"

namespace ddprun {

void RoundEnd::begin_round() {
  failure.reset();
  unsaved.reset();
  order.reset();
  hung.clear();
}

bool RoundEnd::add_order(const StopRound& stop) {
  const bool is_news = !order || (!order->culprit && stop.culprit);
  if (is_news) order = stop;
  return is_news;
}

bool RoundEnd::began_here() const {
  if (!failure) return false;
  return !order || !order->culprit || order->culprit->is_of_same_worker(*failure);
}

bool RoundEnd::may_be_nodes_fault() const {
  if (!failure || stopped_by != 0) return false;
  if (failure->suspicion() == Suspicion::kLostPeer || !failure->can_be_retried) return false;
  return began_here() && (!order || order->restarts);
}

bool RoundEnd::may_repeat(const Supervisor::News& news, int max_restarts) const {
  const WorkerFailure& first = news.failures.front();
  const bool has_exited = first.pid != 0 && first.end.signal == 0;
  const bool is_followed = max_restarts > 0 && !order && stopped_by == 0;
  return is_followed && has_exited && first.suspicion() != Suspicion::kLostPeer &&
         news.ran_for < kStartLimit;
}

Outcome RoundEnd::outcome() const {
  DDPRUN_CHECK(order);
  const auto& culprit = order->culprit ? order->culprit : failure;
  Outcome outcome;
  outcome.restarts = order->restarts;
  outcome.restarts_used = order->restarts_used;
  outcome.restarts_max = order->restarts_max;
  outcome.crashes = order->crashes;
  outcome.repeats = order->repeats;
  outcome.pause = order->pause;
  outcome.has_started = culprit && culprit->pid != 0;
  outcome.can_be_retried = !culprit || culprit->can_be_retried;
  outcome.exit_status = culprit ? culprit->exit_status : kExitTryAgain;
  outcome.stopped_by = stopped_by;
  if (stopped_by != 0 && order->restarts) {
    outcome.restarts = false;
    outcome.exit_status = exit_status_of_signal(stopped_by);
  }
  return outcome;
}

int RoundEnd::exit_status_if_given_up(const Supervisor::News& news) const {
  if (order && order->culprit && !order->restarts) return order->culprit->exit_status;
  if (stopped_by != 0) return exit_status_of_signal(stopped_by);
  const bool failed_here = !news.failures.empty() && !news.failures.front().stopped_by_us;
  return failed_here ? news.failures.front().end.exit_status() : kExitTryAgain;
}

}  // namespace ddprun
