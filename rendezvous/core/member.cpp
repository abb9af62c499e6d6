#include "rendezvous/core/member.hpp"

#include "base/exit_status.hpp"
#include "base/worker_contract.hpp"
#include "rendezvous/core/earliest_deadline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {

Member::Member(const RendezvousPolicy& policy)
    : policy_(policy),
      voter_(policy),
      workers_(policy, voter_),
      search_(policy, voter_, workers_),
      follower_(policy, voter_, workers_),
      second_(voter_) {}

// The connection. ------------------------------------------------------------------------------

void Member::begin(TimePoint now, Effects& out) {
  search_.begin(now);
  const bool has_survivors = !policy_.survivors.empty();
  if (has_survivors) follower_.be_ready_at(now + survivors_heard_within(policy_.lease));
  advance(now, out);
}

void Member::connected(Link link, TimePoint now, Effects& out) {
  if (second_.is_on(link)) return second_.greet(now, out);
  if (!search_.is_calling(link)) return;
  search_.connected(now, out);
  advance(now, out);
}

void Member::closed(
    Link link, const std::string& why, bool is_foreign, TimePoint now, Effects& out) {
  if (second_.is_on(link)) second_.closed();
  const bool is_ours = (search_.has_call() || follower_.follows()) && link == this->link();
  if (!is_ours || link == kSelfLink) return;
  if (second_.is_greeted()) {
    switch_to_second(now, out);
    return advance(now, out);
  }
  search_.closed(why, is_foreign, now);
  if (follower_.follows()) lose_leader(now, out);
  advance(now, out);
}

void Member::received(Link link, const Message& message, TimePoint now, Effects& out) {
  if (second_.is_on(link)) {
    out.emplace_back(effects::Close{.link = follower_.link()});
    switch_to_second(now, out);
  }
  const bool is_heard = search_.is_waiting() || follower_.follows();
  if (!is_heard || link != this->link() || ended_) return;
  if (follower_.follows()) hear(now, out);
  search_.heard(now);
  std::visit([&](const auto& what) { on(what, now, out); }, message);
  advance(now, out);
}

void Member::hear(TimePoint now, Effects& out) {
  voter_.hear(now);
  second_.heard_on_first(out);
}

void Member::hang_up(TimePoint now, Effects& out) {
  if (!follower_.follows()) return search_.hang_up(out);
  out.emplace_back(effects::Close{.link = follower_.link()});
  lose_leader(now, out);
}

void Member::lose_leader(TimePoint now, Effects& out) {
  second_.drop(out);
  follower_.end();
  search_.begin_again(now);
}

/// The leader has read the hello on the second connection: it answers there, and ends the first.
/// Either may be seen first.
void Member::switch_to_second(TimePoint now, Effects& out) {
  const auto second = second_.take();
  lose_leader(now, out);
  search_.wait_on(second.link.value_or(Link{}), second.greeted_at.value_or(now), now);
}

// Under a leader. ------------------------------------------------------------------------------

void Member::on(const Welcome& welcome, TimePoint now, Effects& out) {
  if (follower_.follows()) return follower_.left_out(welcome, now);
  if (!search_.is_waiting()) return;
  if (!voter_.may_obey(welcome)) return hang_up(now, out);
  const Leadership before = voter_.state().obeyed;
  voter_.obey(welcome, search_.greeted_at());
  hear(now, out);
  if (voter_.state().obeyed != before) workers_.leave_kill_to_leader();
  search_.found();
  follower_.follow(search_.link(), welcome, now, out);
}

void Member::on(const VerdictNews& news, TimePoint /*now*/, Effects& out) {
  if (!follower_.follows()) return;
  voter_.note_verdict(news.verdict);
  if (news.is_final) final_ = news.verdict;
  follower_.send(VerdictHeard{}, out);
}

void Member::workers(const WorkerNews& news, TimePoint now, Effects& out) {
  if (!workers_.hear(news)) return;
  follower_.report_workers(out);
  advance(now, out);
}

void Member::failure_read(const FailureText& text, Effects& out) {
  if (follower_.follows()) follower_.send(text, out);
}

void Member::signalled(int signal, bool whole_job, TimePoint now, Effects& out) {
  follower_.signalled(signal, whole_job, out);
  advance(now, out);
}

std::optional<Redirect> Member::leader() const {
  if (!follower_.follows()) return std::nullopt;
  return Redirect{
      .job = policy_.job,
      .program = node().workload.program,
      .role = node().workload.role,
      .instance = instance(),
      .has_begun = has_begun(voter_state()),
      .leadership = voter_state().obeyed,
      .leader = leads() ? node().listens : voter_.leader().node.listens};
}

// Its own leadership. --------------------------------------------------------------------------

void Member::lead(const Instance& instance, std::int64_t term, TimePoint now, Effects& out) {
  if (search_.has_call()) search_.hang_up(out);
  const std::string& host = voter_.leader().node.host;
  const bool was_silent = !host.empty() && voter_.leader_may_live();
  if (was_silent) out.emplace_back(effects::Absence{.host = host, .is_over = false});
  if (!policy_.has_own_console) report_lost_leader(was_silent, now, out);
  voter_.lead(instance, term);
  search_.found();
  follower_.lead(out);
  advance(now, out);
}

/// For all nodes that followed that leader and share this node's console.
void Member::report_lost_leader(bool was_silent, TimePoint now, Effects& out) {
  workers_.leave_kill_to_leader();
  const KnownLeader& leader = voter_.leader();
  if (leader.node.host.empty() || voter_.led_itself()) return;
  const std::string how =
      was_silent ? fmt::format("was not heard for {:.1f} s", to_seconds(now - leader.heard_at))
                 : "is gone";
  out.emplace_back(effects::Note{
      .text = fmt::format("the leader, {}, {}; {} leads now", leader.node.host, how, node().host),
      .is_for_all = true});
}

void Member::set_own_lease(TimePoint until, TimePoint heard_at, TimePoint now, Effects& out) {
  voter_.heard_quorum(heard_at);
  workers_.set(until, out);
  workers_.keep(now, out);
}

void Member::depose(PastLeadership past, TimePoint now, Effects& out) {
  lose_leader(now, out);
  voter_.depose(std::move(past), now);
  advance(now, out);
}

void Member::abdicate(TimePoint now, Effects& out) {
  search_.rejoin_as_new();
  lose_leader(now, out);
  advance(now, out);
}

// The search for a leader. ---------------------------------------------------------------------

void Member::on(const Refuse& refuse, TimePoint now, Effects& out) {
  if (auto for_good = search_.refused(refuse, now, out)) {
    refused_ = std::move(for_good);
    if (workers_.are_running()) workers_.stop("this node's place is taken", out);
  }
  hang_up(now, out);  // and if it is for good, this node ends once no worker runs
}

void Member::note_leader(const Redirect& redirect, TimePoint now, Effects& out) {
  const bool is_stranger = !is_same_job(redirect, node().workload);
  if (is_stranger) search_.report().endpoint_has_leader(redirect.leader);
  if (follower_.follows()) {
    voter_.note_begun(redirect);
  } else {
    search_.note_leader(redirect, now, out);
  }
  advance(now, out);
}

void Member::note_survivor(const Endpoint& at, TimePoint now, Effects& out) {
  if (search_.note_survivor(at, now)) advance(now, out);
}

void Member::forget_survivors(TimePoint now, Effects& out) {
  search_.forget_survivors();
  advance(now, out);
}

void Member::lost_quorum(const QuorumLoss& loss, TimePoint now, Effects& out) {
  search_.report().set_loss(loss);
  advance(now, out);
}

bool Member::searches_for_leader(TimePoint now) const {
  const bool may_follow = follower_.follows() || ended_;
  return !may_follow && has_begun(voter_state()) && voter_.is_lost(now) &&
         !search_.awaits_another();
}

Duration Member::regroup(TimePoint now) const {
  const KnownLeader& leader = voter_.leader();
  // A heartbeat is a little late if the leader's clock is slower.
  const Duration heartbeat =
      heartbeat_interval(leader.lease) + heartbeat_interval(leader.lease) / 16;
  const TimePoint missed_at = std::max(leader.hold_until, search_.since());
  return std::max(Duration::zero(), missed_at + heartbeat - now);
}

// Deaths. --------------------------------------------------------------------------------------

void Member::goodbye(const Leadership& leadership, TimePoint now, Effects& out) {
  const bool is_ours = voter_.goodbye(leadership, now);
  if (is_ours && !leads()) {
    if (follower_.follows()) hang_up(now, out);
    search_.find_successor(now);
    const std::string& host = voter_.leader().node.host;
    if (workers_.are_running()) workers_.stop(fmt::format("the leader, {}, is gone", host), out);
  }
  advance(now, out);
}

void Member::line_ended(Incarnation node, TimePoint now, Effects& out) {
  voter_.line_ended(node);
  advance(now, out);
}

std::vector<std::pair<NodeInfo, bool>> Member::missing(TimePoint now) const {
  return voter_.missing(now, follower_.follows() ? kNever : voter_.leader().hold_until);
}

// The end. -------------------------------------------------------------------------------------

void Member::consider_end(TimePoint now, Effects& out) {
  if (workers_.are_running()) return;
  if (refused_) {
    const bool is_reported_there = search_.is_at_refusal();  // by a node of its own job
    return finish(refused_->exit_status, refused_->why, out, !is_reported_there);
  }
  if (final_) return finish_by(*final_, out);
  if (follower_.follows()) return;
  if (const auto& leaving = follower_.leaving()) {
    const bool has_saved = contract::is_notice(leaving->signal) && workers_.news().has_saved;
    const int killed = exit_status_of_signal(leaving->signal);
    return finish(has_saved ? policy_.notice_status : killed, "", out);
  }
  if (search_.report().is_endpoint_foreign(now)) {
    return finish(kExitTryAgain, search_.report().why_foreign(), out);
  }
  if (search_.is_over(now)) give_up(out);
}

/// No leader was found in time.
void Member::give_up(Effects& out) {
  const auto& verdict = voter_state().verdict;  // told, but maybe not known to a majority
  if (!verdict) return finish(kExitTryAgain, search_.why_given_up(), out);
  if (verdict->exit_status != kExitOk) return finish(verdict->exit_status, verdict->why, out);
  finish(  // without this node the others may have begun another round
      kExitTryAgain,
      fmt::format(
          "all workers have exited with 0, but the leader was lost before a majority of the job's "
          "nodes knew, and none could be reached within {:.0f} s",
          to_seconds(search_.report().timeout())),
      out);
}

/// A job that was done without this node may have been another one: what this node was started for
/// has not run.
void Member::finish_by(const Verdict& verdict, Effects& out) {
  const bool is_done = verdict.exit_status == kExitOk;
  const Workload& of_leader = voter_.leader().node.workload;
  const std::string& step = node().workload.step;
  const bool is_spare_wanted = policy_.spares || (!step.empty() && step == of_leader.step);
  if (!is_done || workers_.took_part() || leads() || is_spare_wanted) {
    return finish(verdict.exit_status, verdict.why, out, leads());
  }
  finish(
      kExitTryAgain,
      fmt::format(
          "job '{}' is done, and this node has never taken part in it ({} led it, and ran {}); if "
          "this node was meant for another job, give that job another --rdzv-endpoint; if it was "
          "meant as a spare, give --spares, and it exits with 0",
          policy_.job,
          voter_.leader().node.host,
          of_leader.command),
      out);
}

void Member::finish(int exit_status, std::string why, Effects& out, bool is_own_word) {
  ended_ = true;
  const bool speaks_for_job = leads() || (!final_ && needs_both(voter_state().committed));
  if (follower_.follows_another()) out.emplace_back(effects::Close{.link = link()});
  second_.drop(out);
  follower_.end();
  search_.end(out);
  out.emplace_back(effects::Finish{
      .exit_status = exit_status,
      .why = std::move(why),
      .speaks_for_job = speaks_for_job,
      .is_reported_elsewhere = !is_own_word});
}

// Time. ----------------------------------------------------------------------------------------

void Member::advance(TimePoint now, Effects& out) {
  if (ended_) return;
  seen_ = now;
  workers_.keep(now, out);
  if (follower_.follows_another()) keep_following(now, out);
  search_.try_vote(now, out);
  consider_end(now, out);
  if (!ended_ && !follower_.follows()) search_.advance(now, out);
}

void Member::keep_following(TimePoint now, Effects& out) {
  if (now >= voter_.leader().hold_until) return hang_up(now, out);
  follower_.tick(now, out);
  if (second_.is_due(follower_.silent_at(), now, out)) {
    second_.call(search_.new_link(), now, out);
  }
}

std::optional<TimePoint> Member::next_deadline() const {
  if (ended_) return std::nullopt;
  EarliestDeadline next(seen_);
  next.add(workers_.next_deadline(seen_));
  next.add(follower_.next_deadline(seen_));
  if (follower_.follows_another()) next.add(second_.next_deadline(follower_.silent_at()));
  if (!follower_.follows()) {
    next.add(search_.next_deadline(seen_));
    next.add(voter_.next_deadline(seen_));
  }
  if (next.at() == kNever) return std::nullopt;
  return next.at();
}

}  // namespace ddprun
