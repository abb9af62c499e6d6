#include "rendezvous/core/worker_lease.hpp"

#include "rendezvous/core/earliest_deadline.hpp"

#include <fmt/format.h>

#include <utility>

namespace ddprun {

WorkerLease::WorkerLease(const RendezvousPolicy& policy, const Voter& voter)
    : policy_(policy), voter_(voter), took_part_(policy.took_part) {}

WorkerNews WorkerLease::report() const {
  WorkerNews reported = news_;
  reported.unfit = unfit_;
  return reported;
}

bool WorkerLease::hear(const WorkerNews& news) {
  if (news.round < news_.round) return false;
  auto failure = news.failure ? news.failure : news_.failure;
  news_ = news;
  if (news_.state == WorkersState::kStopped) unfit_ = std::exchange(news_.unfit, {});
  if (news_.state == WorkersState::kFailed || news_.state == WorkersState::kStopped) {
    news_.failure = std::move(failure);
  }
  return true;
}

bool WorkerLease::start(const OfferRound& offer, const Place& place, TimePoint now, Effects& out) {
  news_ = {};
  news_.round = offer.round;
  is_killed_ = false;
  // R8: an agent that was held up (frozen, and thawed) finds that its lease is over.
  if (now >= until_) return false;
  news_.state = WorkersState::kRunning;
  took_part_ = true;
  out.emplace_back(effects::StartWorkers{
      .round = offer.round,
      .place = place,
      .master = offer.master,
      .hosts = offer.hosts,
      .progress = offer.progress});
  return true;
}

void WorkerLease::stop(std::string why, Effects& out) const {
  StopRound order;
  order.round = news_.round;
  order.why = std::move(why);
  order.restarts = true;
  out.emplace_back(effects::StopWorkers{.order = std::move(order)});
}

void WorkerLease::keep(TimePoint now, Effects& out) {
  if (!are_running() || now < until_ || std::exchange(is_killed_, true)) return;
  const bool is_reported_later = !policy_.has_own_console && !voter_.led_itself();
  std::string why = why_over(now);
  if (is_reported_later) unreported_kill_ = why;
  out.emplace_back(
      effects::KillWorkers{.why = std::move(why), .is_reported_later = is_reported_later});
}

void WorkerLease::extend(TimePoint until, Effects& out) {
  if (until <= until_) return;
  set(until, out);
  report_kill(out);
}

void WorkerLease::set(TimePoint until, Effects& out) {
  if (until == until_) return;
  until_ = until;
  out.emplace_back(effects::SetLease{.until = until});
}

void WorkerLease::forget() {
  news_ = {};
  until_ = {};  // a bootstrap leader had no limit
}

void WorkerLease::report_kill(Effects& out) {
  const std::string why = std::exchange(unreported_kill_, {});
  if (why.empty()) return;
  out.emplace_back(effects::Note{
      .text = fmt::format("{}, so the workers of this node were killed", why), .is_for_all = true});
}

std::string WorkerLease::why_over(TimePoint now) const {
  const KnownLeader& leader = voter_.leader();
  const double silent = to_seconds(now - leader.heard_at);
  const bool was_silent = now - leader.heard_at >= leader.lease / 2;
  if (voter_.led_itself()) {
    if (was_silent) return fmt::format("too few nodes were heard for {:.1f} s", silent);
    return fmt::format(
        "enough nodes were heard {:.1f} s ago, but too few of them have heard this one, which "
        "leads, for a lease",
        silent);
  }
  if (was_silent) {
    return fmt::format("the leader, {}, was not heard for {:.1f} s", leader.node.host, silent);
  }
  return fmt::format(
      "the leader, {}, was heard {:.1f} s ago, and has not heard enough nodes for a lease",
      leader.node.host,
      silent);
}

TimePoint WorkerLease::next_deadline(TimePoint last_event) const {
  EarliestDeadline next(last_event);
  if (are_running() && !is_killed_) next.add(until_);
  return next.at();
}

}  // namespace ddprun
