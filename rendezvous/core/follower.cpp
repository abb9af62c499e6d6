#include "rendezvous/core/follower.hpp"

#include "rendezvous/core/earliest_deadline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

namespace ddprun {

// A leader. ------------------------------------------------------------------------------------

void Follower::follow(Link link, const Welcome& welcome, TimePoint now, Effects& out) {
  link_ = link;
  heartbeats_ = {};
  out.emplace_back(effects::OpenLine{
      .uplink = link,
      .leader = welcome.leader.listens,
      .leadership = voter_.state().obeyed,
      .node = voter_.node().incarnation});
  if (!ready_at_ || now >= *ready_at_) report_workers(out);
  if (leaving_) send(*leaving_, out);
  send_heartbeat(now, out);
  if (welcome.is_full) stand_by(now);
  // What runs here belongs to a round that this leader will not start again.
  if (workers_.are_running() && workers_.news().round.term < welcome.term) {
    workers_.stop("another node leads", out);
  }
}

void Follower::left_out(const Welcome& welcome, TimePoint now) {
  voter_.left_out(welcome);
  if (welcome.is_full) stand_by(now);
}

void Follower::lead(Effects& out) {
  link_ = kSelfLink;
  report_workers(out);
  if (leaving_) send(*leaving_, out);
}

void Follower::end() {
  link_.reset();
  stands_by_at_.reset();
  offer_.reset();  // a start is obeyed only on the connection of its offer
}

// Heartbeats. ----------------------------------------------------------------------------------

void Follower::send_heartbeat(TimePoint now, Effects& out) {
  constexpr std::size_t kKept = 32;
  send(Heartbeat{.number = ++heartbeats_.newest, .heard = heartbeats_.heard}, out);
  heartbeats_.sent.push_back({.number = heartbeats_.newest, .at = now});
  if (heartbeats_.sent.size() > kKept) heartbeats_.sent.pop_front();
  heartbeats_.due_at = now + heartbeat_interval(voter_.leader().lease);
}

void Follower::on(const HeartbeatReply& reply, TimePoint now, Effects& out) {
  if (reply.number > heartbeats_.heard) {
    heartbeats_.heard = reply.number;
    send(Confirm{.heard = heartbeats_.heard}, out);
  }
  auto& sent = heartbeats_.sent;
  while (!sent.empty() && sent.front().number < reply.number)
    sent.pop_front();
  if (!sent.empty() && sent.front().number == reply.number) {
    const TimePoint sent_at = sent.front().at;
    const Duration lease = voter_.leader().lease;
    // The other nodes of this slot send theirs at the same instant (leader_lease.cpp); never much
    // later than the lease needs.
    const Duration interval = heartbeat_interval(lease);
    const Duration next = std::clamp(reply.next, interval / 8, interval * 5 / 4);
    if (reply.number == heartbeats_.newest) heartbeats_.due_at = sent_at + next;
    voter_.answered(sent_at, now);
    workers_.extend(sent_at + std::min(reply.grant, lease), out);
  }
  voter_.resize(reply.round, reply.voter_count);
}

TimePoint Follower::silent_at() const {
  const auto is_owed = [this](const auto& sent) { return sent.number > heartbeats_.heard; };
  const auto owed = std::ranges::find_if(heartbeats_.sent, is_owed);
  if (owed == heartbeats_.sent.end()) return kNever;
  const KnownLeader& leader = voter_.leader();
  return std::max(
      leader.heard_at + silence_before_call(leader.lease), owed->at + call_interval(leader.lease));
}

// Rounds. --------------------------------------------------------------------------------------

void Follower::on(const OfferRound& offer, TimePoint /*now*/, Effects& out) {
  if (workers_.are_running() || !voter_.acknowledge(offer)) return;
  offer_ = offer;
  send(Acknowledge{.round = offer.round}, out);
}

void Follower::on(const StartRound& start, TimePoint now, Effects& out) {
  // R7: the start of a round that was not offered here, or was offered before this connection.
  if (!offer_ || offer_->round != start.round) return;
  const OfferRound offer = *std::move(offer_);
  offer_.reset();
  voter_.started();
  stands_by_at_.reset();
  if (!offer.place) return report_spare(out);
  has_reported_spare_ = false;
  if (!workers_.start(offer, *offer.place, now, out)) report_workers(out);
}

void Follower::on(const StopRound& stop, TimePoint /*now*/, Effects& out) {
  if (offer_ && offer_->round <= stop.round) offer_.reset();
  const RoundId& ours = workers_.news().round;
  const bool is_ours = ours.number != 0 && ours <= stop.round;
  if (is_ours) out.emplace_back(effects::StopWorkers{.order = stop});
  if (!workers_.are_running()) report_workers(out);
}

/// A node that is back may find its own place taken, as long as the leader does not know that it
/// was lost.
void Follower::stand_by(TimePoint now) {
  const KnownLeader& leader = voter_.leader();
  if (!stands_by_at_) stands_by_at_ = now + leader.lease + leader.margin;
}

void Follower::report_spare(Effects& out) {
  if (std::exchange(has_reported_spare_, true)) return;
  if (leads()) {  // its check failed, and the others are enough
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "this node leads job '{}', and runs workers only when another node is lost",
            policy_.job),
        .is_for_all = true});
    return;
  }
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "job '{}' already has all {} nodes; this node stands by as a spare, and takes over when "
          "a node is lost ({} leads, and runs {})",
          policy_.job,
          policy_.nodes.max(),
          voter_.leader().node.host,
          voter_.leader().node.workload.command),
      .is_for_all = true});
}

// Reports. -------------------------------------------------------------------------------------

void Follower::report_workers(Effects& out) const {
  if (follows()) send(workers_.report(), out);
}

void Follower::signalled(int signal, bool whole_job, Effects& out) {
  if (!leaving_) {
    leaving_ = Leaving{.signal = signal, .whole_job = whole_job};
    if (follows()) send(*leaving_, out);
  } else if (signal == SIGKILL && follows()) {
    send(Leaving{.signal = SIGKILL, .whole_job = leaving_->whole_job}, out);
  }
}

void Follower::send(Message message, Effects& out) const {
  out.emplace_back(effects::Send{.to = link(), .message = std::move(message)});
}

// Time. ----------------------------------------------------------------------------------------

void Follower::tick(TimePoint now, Effects& out) {
  if (now >= heartbeats_.due_at) send_heartbeat(now, out);
  if (ready_at_ && now >= *ready_at_) {
    ready_at_.reset();
    report_workers(out);
  }
  if (stands_by_at_ && now >= *stands_by_at_) {
    stands_by_at_.reset();
    report_spare(out);
  }
}

TimePoint Follower::next_deadline(TimePoint last_event) const {
  EarliestDeadline next(last_event);
  if (!follows_another()) return next.at();
  next.add(voter_.leader().hold_until);
  next.add(heartbeats_.due_at);
  if (stands_by_at_) next.add(*stands_by_at_);
  if (ready_at_) next.add(*ready_at_);
  return next.at();
}

}  // namespace ddprun
