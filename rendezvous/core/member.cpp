#include "rendezvous/core/member.hpp"

#include "base/exit_status.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHeartbeatsKept = 32;
constexpr int kRedirectsMax = 64;
constexpr int kForwardsMax = 16;
constexpr auto kQuietWait = 5s;     // for a leader, before whoever started this node is told
constexpr Duration kLostWait = 1s;  // for those that may be back in a moment
constexpr std::size_t kSurvivorsMax = 16;

void remove_prefix(std::string_view prefix, std::string& text) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
}

}  // namespace

Member::Member(const RendezvousPolicy& policy)
    : policy_(policy),
      node_(policy.node),
      dice_(static_cast<std::minstd_rand::result_type>(policy.seed)),
      pause_(policy.retry_pause),
      survivors_(policy.survivors),
      lease_(policy.lease),
      margin_(policy.margin),
      took_part_(policy.took_part) {}

bool Member::runs_workers() const {
  return is_under_way(news_.state);
}

// Whom to follow. ------------------------------------------------------------------------------

void Member::begin(TimePoint now, Effects& out) {
  sought_since_ = now;
  if (!survivors_.empty()) ready_at_ = now + survivors_heard_within(lease_);
  advance(now, out);
}

void Member::connected(Link link, TimePoint now, Effects& out) {
  if (second_ && link == second_->link) return greet_on_second(now, out);
  if (uplink_ != Uplink::kCalling || link != link_) return;
  uplink_ = Uplink::kWaiting;
  patience_until_ = now + patience_for(policy_.patience);
  hello_at_ = now;
  Hello greeting = hello();
  if (is_at_refusal()) greeting.asks_of_port = policy_.meet.front().port;
  send(greeting, out);
  advance(now, out);
}

Hello Member::hello() const {
  return {
      .job = policy_.job,
      .node = node_,
      .nodes_min = policy_.nodes.min(),
      .nodes_max = policy_.nodes.max(),
      .max_restarts = policy_.max_restarts,
      .needs_progress = policy_.needs_progress,
      .lease = policy_.lease,
      .has_fence = policy_.has_fence,
      .trusts_replacement = policy_.trusts_replacement,
      .voter_state = voter_state_,
      .awaits = voter_state_.instance.exists() ? Instance() : begun_};
}

void Member::closed(
    Link link, const std::string& why, bool is_foreign, TimePoint now, Effects& out) {
  if (second_ && link == second_->link) second_->link.reset();
  const bool is_ours = uplink_ != Uplink::kNone && uplink_ != Uplink::kOwnTurn && link == link_;
  if (!is_ours || link == kSelfLink) return;
  if (second_ && second_->link && second_->greeted_at) {
    switch_to_second(now, out);
    return advance(now, out);
  }
  if (uplink_ != Uplink::kFollowing) {
    failed_call(why);
    note_foreign(is_foreign, now);
  }
  if (!is_at_refusal()) is_taken_ = uplink_ == Uplink::kWaiting;
  lose_uplink(now, out);
  advance(now, out);
}

/// Where it might be told of a refusal nobody listens in general: no person knows that port.
void Member::failed_call(std::string why) {
  if (!is_at_refusal()) in_vain_ = std::move(why);
}

/// Of the endpoint's only port. Whoever else has it may be about to leave.
void Member::note_foreign(bool is_foreign, TimePoint now) {
  if (is_at_refusal()) return;
  if (!is_foreign || policy_.meet.size() != 1 || called_ != policy_.meet.front()) {
    foreign_since_.reset();
  } else if (!foreign_since_) {
    foreign_since_ = now;
  }
}

bool Member::is_at_refusal() const {
  return std::ranges::find(policy_.refusals, called_) != policy_.refusals.end();
}

void Member::received(Link link, const Message& message, TimePoint now, Effects& out) {
  if (second_ && link == second_->link) {
    out.emplace_back(effects::Close{.link = link_});
    switch_to_second(now, out);
  }
  const bool speaks = uplink_ == Uplink::kWaiting || uplink_ == Uplink::kFollowing;
  if (!speaks || link != link_ || ended_) return;
  if (uplink_ == Uplink::kFollowing) hear(now, out);
  note_foreign(false, now);
  std::visit([&](const auto& what) { on(what, now, out); }, message);
  advance(now, out);
}

void Member::on(const Welcome& welcome, TimePoint now, Effects& out) {
  if (uplink_ == Uplink::kFollowing) {  // a round has started without this node
    successors_ = welcome.successors;
    if (welcome.has_begun) begun_ = voter_state_.instance;
    if (welcome.is_full) stand_by(now);
  }
  if (uplink_ != Uplink::kWaiting) return;
  const Leadership leadership{.term = welcome.term, .leader = welcome.leader.incarnation};
  const bool is_older = welcome.term < voter_state_.term;
  const bool is_other =
      welcome.term == voter_state_.obeyed.term && voter_state_.obeyed != leadership;
  const bool is_ours = may_join(welcome.instance, welcome.has_begun);
  if (!is_ours || is_older || is_other || is_dead(leadership)) return hang_up(now, out);
  uplink_ = Uplink::kFollowing;
  if (voter_state_.obeyed != leadership) untold_kill_.clear();
  voter_state_.instance = welcome.instance;
  if (welcome.has_begun) begun_ = welcome.instance;
  redirects_ = 0;
  redirected_to_.reset();
  end_wait();
  voter_state_.term = welcome.term;
  voter_state_.obeyed = leadership;
  leader_ = welcome.leader.listens;
  leader_node_ = welcome.leader;
  leader_host_ = welcome.leader.host;
  leader_workload_ = welcome.leader.workload;
  if (!welcome.successors.empty()) put_first(welcome.successors);
  lease_ = welcome.lease;
  margin_ = welcome.margin;
  hear(now, out);
  in_time_until_ = hello_at_ + lease_ + margin_;
  heartbeats_ = 0;
  heard_ = 0;
  sent_.clear();
  out.emplace_back(effects::OpenLine{
      .uplink = link_,
      .leader = welcome.leader.listens,
      .leadership = leadership,
      .node = node_.incarnation});
  if (now >= ready_at_) report_workers(out);
  if (leaving_) send(*leaving_, out);
  heartbeat(now, out);
  if (welcome.is_full) stand_by(now);
  // What runs here belongs to a round that its leader will not start again.
  if (runs_workers() && news_.round.term < welcome.term) {
    stop_workers("another node leads", out);
  }
}

/// A survivor never joins another instance: its bootstrap leader knows nothing of what runs. Nor
/// does a node that was told of one that has begun, before a round of the other was started; then
/// both have begun, and the later one ends once they hear of each other.
bool Member::may_join(const Instance& instance, bool has_begun_there) const {
  if (voter_state_.instance.exists()) return voter_state_.instance == instance;
  return has_begun_there || !begun_.exists() || begun_ == instance;
}

bool Member::searches_for_leader(TimePoint now) const {
  const bool may_follow = uplink_ == Uplink::kFollowing || ended_;
  return !may_follow && has_begun(voter_state_) && is_lost(now) && !awaited_;
}

/// A leader that has started no round knows those alone who have come to it. The others have votes
/// as before: two groups that wait would never hear of each other.
void Member::put_first(std::vector<Successor> successors) {
  constexpr std::size_t kKnownMax = 16;
  for (const Successor& earlier : successors_) {
    const auto is_same = [&earlier](const Successor& other) { return other.at == earlier.at; };
    const bool has_room = successors.size() < kKnownMax;
    if (has_room && std::ranges::none_of(successors, is_same)) successors.push_back(earlier);
  }
  successors_ = std::move(successors);
}

void Member::on(const Redirect& redirect, TimePoint now, Effects& out) {
  if (uplink_ != Uplink::kWaiting) return;
  const std::int64_t term = redirect.leadership.term;
  if (leaves_for(redirect.instance, redirect.has_begun)) rejoin_as_new();
  note_begun(redirect);
  const bool is_same = may_join(redirect.instance, redirect.has_begun);
  const bool has_waited = now >= voted_at_ + lease_ + margin_;
  const bool is_after = is_same && term < voter_state_.term &&
                        voter_state_.term > voter_state_.obeyed.term && has_waited;
  // It promised itself to somebody who did not come to lead, and may not obey who does. As somebody
  // else, without a vote, it can join (E4).
  if (is_after && !is_dead(redirect.leadership) && !runs_workers()) rejoin_as_new();
  const bool is_ours = redirect.leadership == voter_state_.obeyed && is_lost(now);
  if (redirects_ == 0) redirected_since_ = now;
  ++redirects_;
  if (is_ours && search_at_ > 0 && now < redirected_since_ + 2 * longest_round_trip(lease_)) {
    // It heard of our leader a little later than we did, and will miss it a little later.
    --search_at_;
    hang_up(now, out);
    retry_at_ = now + policy_.retry_pause;
    return;
  }
  const bool is_news = is_same && term >= voter_state_.term && !is_dead(redirect.leadership) &&
                       redirect.leader != node_.listens;
  if (is_news && redirects_ <= kRedirectsMax) {
    redirected_to_ = redirect.leader;
  } else {
    redirects_ = 0;
  }
  hang_up(now, out);
}

/// Its leader may be lost by now, and another instance be bootstrapped where it was.
void Member::note_begun(const Redirect& redirect) {
  const bool is_ours = redirect.has_begun && is_same_job(redirect, node_.workload);
  if (is_ours && !voter_state_.instance.exists()) begun_ = redirect.instance;
}

void Member::rejoin_as_new() {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;  // odd, so that no number comes twice
  node_.incarnation = Incarnation{static_cast<std::uint64_t>(node_.incarnation) + kStep};
  voter_state_ = {};
  successors_.clear();
  search_.clear();
  hosts_.clear();
  newest_started_ = {};
  loss_ = {};
  has_reported_loss_ = false;
  news_ = {};
  dead_ = {};
  led_ = 0;
  was_leader_ = false;
  past_ = {};
  replaced_.clear();
  lease_until_ = {};  // of whoever it was: one that bootstrapped the job had no limit
}

/// Whether it is to join that instance as somebody else: no round of its own was started, for all
/// it knows, and either there is one of the other's, or nobody can have started one with it. A
/// spare knows that there was one of its own, and belongs to those who run it.
bool Member::leaves_for(const Instance& instance, bool has_begun_there) const {
  const bool is_other = voter_state_.instance.exists() && voter_state_.instance != instance;
  if (!is_other || knows_that_it_has_begun() || runs_workers()) return false;
  return has_begun_there || voter_state_.offered.round.number == 0;
}

void Member::abdicate(TimePoint now, Effects& out) {
  rejoin_as_new();
  lose_uplink(now, out);
  sought_since_ = now;
  advance(now, out);
}

void Member::told_of_survivor(const Endpoint& at, TimePoint now, Effects& out) {
  const bool is_new = std::ranges::find(survivors_, at) == survivors_.end();
  if (!is_new || at == node_.listens || survivors_.size() >= kSurvivorsMax) return;
  survivors_.push_back(at);
  if (uplink_ == Uplink::kNone) find_successor(now);
  advance(now, out);
}

bool Member::waits_at_survivor() const {
  return uplink_ == Uplink::kWaiting && awaited_ &&
         std::ranges::find(survivors_, called_) != survivors_.end();
}

void Member::forget_survivors(TimePoint now, Effects& out) {
  survivors_.clear();
  begun_ = {};
  loss_ = {};
  has_reported_loss_ = false;
  has_reported_waiting_ = false;
  in_vain_.clear();  // of calls to those who have a part in it
  advance(now, out);
}

void Member::told_of_leader(const Redirect& redirect, TimePoint now, Effects& out) {
  if (!is_same_job(redirect, node_.workload)) foreign_leader_ = redirect.leader;
  const bool follows = uplink_ == Uplink::kFollowing;
  if (!follows && leaves_for(redirect.instance, redirect.has_begun)) {
    if (has_call()) hang_up(now, out);
    rejoin_as_new();
  }
  note_begun(redirect);
  const bool is_same = may_join(redirect.instance, redirect.has_begun);
  const bool is_news =
      is_same && redirect.leadership.term >= voter_state_.term && !is_dead(redirect.leadership);
  const bool knows = uplink_ == Uplink::kFollowing || (has_call() && called_ == redirect.leader);
  if (is_news && !knows) {
    if (has_call()) hang_up(now, out);
    uplink_ = Uplink::kNone;
    redirected_to_ = redirect.leader;
    retry_at_ = now;
  }
  advance(now, out);
}

void Member::on(const Refuse& refuse, TimePoint now, Effects& out) {
  const bool is_stranger = refuse.is_stranger || refuse.job != policy_.job;
  if (is_stranger && is_at_refusal()) return hang_up(now, out);  // it knows nothing of our endpoint
  if (is_stranger && !stranger_since_) stranger_since_ = now;
  const bool is_at_old_address =
      is_stranger && policy_.meets_by_name && now < *stranger_since_ + kOldAddressWait;
  const bool was_sought_there = called_ == foreign_leader_;  // which has called at our own endpoint
  const bool may_be_elsewhere =
      is_stranger && !was_sought_there && (policy_.meet.size() > 1 || is_at_old_address);
  // Of its own job: it was replaced while it was cut off.
  const bool has_lost_place = refuse.instance && refuse.instance == voter_state_.instance;
  const bool is_new = voter_state_.obeyed.term == 0;
  if (has_lost_place || (is_new && !may_be_elsewhere)) {
    refused_ = refuse;
    // Nobody knows that port.
    if (is_at_refusal()) remove_prefix(called_.to_string() + ": ", refused_->why);
    if (runs_workers()) stop_workers("this node's place is taken", out);
    return hang_up(now, out);  // and ends, once no worker runs
  }
  if (is_new && is_at_old_address && *stranger_since_ == now) {
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "{}; the name may lead to an old address, so this node looks for its job there for "
            "{:.0f} s",
            refuse.why,
            to_seconds(kOldAddressWait)),
        .is_for_all = true});
  }
  in_vain_ = refuse.why;
  hang_up(now, out);  // a stranger, where somebody of ours was to be
}

void Member::stop_workers(std::string why, Effects& out) {
  StopRound order;
  order.round = news_.round;
  order.why = std::move(why);
  order.restarts = true;
  out.emplace_back(effects::StopWorkers{.order = std::move(order)});
}

/// Or an earlier one, of which nothing is heard any more either.
bool Member::is_dead(const Leadership& leadership) const {
  return leadership == dead_.of || leadership.term < dead_.of.term;
}

bool Member::is_lost(TimePoint now) const {
  const bool is_new = voter_state_.obeyed.term == 0;
  return is_new || led_itself() || is_leader_dead() || now >= hold_until_;
}

void Member::goodbye(const Leadership& leadership, TimePoint now, Effects& out) {
  const bool is_ours = leadership == voter_state_.obeyed;
  // A lifeline to an earlier leader, or to one of another instance, may end late: no news here.
  if (is_ours && dead_.of != leadership) {
    dead_ = {.of = leadership, .in_time = now < in_time_until_, .is_replaced = false};
  }
  if (is_ours && leadership.term != 0 && !leads()) {
    if (uplink_ == Uplink::kFollowing) hang_up(now, out);
    find_successor(now);
    if (runs_workers()) stop_workers(fmt::format("the leader, {}, is gone", leader_host_), out);
  }
  advance(now, out);
}

/// The leader has just been lost: at once.
void Member::find_successor(TimePoint now) {
  search_.clear();
  searches_ = 0;
  retry_at_ = now;
  pause_ = policy_.retry_pause;
}

void Member::hang_up(TimePoint now, Effects& out) {
  out.emplace_back(effects::Close{.link = link_});
  lose_uplink(now, out);
}

void Member::lose_uplink(TimePoint now, Effects& out) {
  drop_second(out);
  if (uplink_ == Uplink::kFollowing) {
    sought_since_ = now;
    searches_ = 0;
    search_.clear();
    // The first try at a connection that has just ended is at once.
    retry_at_ = now;
    pause_ = policy_.retry_pause;
  }
  uplink_ = Uplink::kNone;
  stands_by_at_.reset();
  offer_.reset();  // only on the connection of its offer is a start obeyed
  asked_ = 0;
  has_voted_ = false;
  has_sent_pre_vote_ = false;
  awaited_.reset();
}

void Member::search(TimePoint now, Effects& out) {
  // Of a job that never began, as far as it knows, nobody can be elected: it waits for another
  // bootstrap leader, after those who may know better had the time to ask it.
  const bool may_forget =
      voter_state_.obeyed.term != 0 && !has_begun(voter_state_) && !runs_workers() && is_lost(now);
  if (may_forget && now >= forget_at()) {
    if (has_call()) hang_up(now, out);  // it knows this node as who it was
    // From here on a spare is as a node that starts now and is told of the job by those who run it.
    if (knows_that_it_has_begun()) {
      survivors_ = {leader_};
      for (const Successor& each : successors_) {
        if (survivors_.size() < kSurvivorsMax) survivors_.push_back(each.at);
      }
    }
    rejoin_as_new();
    sought_since_ = now;
  }
  if (uplink_ == Uplink::kOwnTurn && now >= patience_until_) uplink_ = Uplink::kNone;
  // A leader that says itself that it waits for a leader is as good to wait with as any.
  const bool is_silent = calls_back_ && !awaited_;
  if (has_call() && is_silent && is_lost(now)) {
    hang_up(now, out);
    find_successor(now);
  } else if (has_call() && now >= patience_until_) {
    const char* how = "accepts connections but does not respond";
    if (uplink_ == Uplink::kWaiting) is_taken_ = true;
    if (uplink_ == Uplink::kCalling) how = "does not answer";
    if (awaited_) how = "takes part, and waits for a leader as well";
    failed_call(fmt::format("{} {}", called_.to_string(), how));
    hang_up(now, out);
  }
  report_waiting(now, out);
  if (uplink_ == Uplink::kNone && now >= retry_at_) next_candidate(now, out);
}

/// Those who can promise have done so by then: all miss a silent leader within a heartbeat or two,
/// and those that this node led itself once they have not heard it for lease + margin.
TimePoint Member::reports_loss_at() const {
  const TimePoint begins =
      std::max({sought_since_, hold_until_, may_vote_at_, past_.over_for_all_at});
  return begins + std::max(kLostWait, lease_ / 3);
}

bool Member::has_waited_long(TimePoint now) const {
  return uplink_ != Uplink::kFollowing && !runs_workers() && now >= reports_loss_at();
}

/// Somebody leads.
void Member::end_wait() {
  survivors_.clear();
  has_reported_waiting_ = false;
  has_reported_loss_ = false;
  loss_ = {};
}

void Member::lost_quorum(const QuorumLoss& loss, TimePoint now, Effects& out) {
  loss_ = loss;
  advance(now, out);
}

/// For whom, until when, and what would end it.
void Member::report_quorum_loss(TimePoint now, Effects& out) {
  const bool is_due = !loss_.why.empty() && has_waited_long(now);
  if (!is_due || std::exchange(has_reported_loss_, true)) return;
  report_kill(out);
  const bool is_new = voter_state_.obeyed.term == 0;
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "{}: {}; the wait ends when {}, or with status {} in {:.0f} s",
          is_new
              ? fmt::format("job '{}' has begun before, and waits for a leader", policy_.job)
              : fmt::format(
                    "this node has waited {:.1f} s for a leader", to_seconds(now - sought_since_)),
          loss_.why,
          loss_.ends,
          kExitTryAgain,
          to_seconds(std::max(Duration::zero(), sought_since_ + wait_for_leader() - now))),
      .is_for_all = true});
}

void Member::report_waiting(TimePoint now, Effects& out) {
  report_quorum_loss(now, out);
  if (voter_state_.obeyed.term != 0) return;
  if (!survivors_.empty() && now >= sought_since_ + kLostWait && !has_reported_waiting_) {
    has_reported_waiting_ = true;
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "job '{}' has begun before, as the node at {} knows; waiting until its nodes have a "
            "leader again (timeout {:.0f} s)",
            policy_.job,
            survivors_.front().to_string(),
            to_seconds(policy_.join_timeout)),
        .is_for_all = true});
    return;
  }
  const bool ends_soon = policy_.ends_at_foreign && foreign_since_;  // and then says all of it
  const bool looks_further = stranger_since_ && now < *stranger_since_ + kOldAddressWait;
  const bool has_told = has_reported_loss_ || ends_soon || (policy_.meets_by_name && looks_further);
  if (now < sought_since_ + kQuietWait || has_told) return;
  if (in_vain_.empty() || std::exchange(has_reported_waiting_, true)) return;
  std::string hint = policy_.if_unanswered;
  if (is_taken_) {
    hint =
        "another program may have that port, as ddprun says on its machine, or the node there is "
        "stopped";
  }
  if (is_answered_) hint.clear();
  out.emplace_back(effects::Note{
      .text = fmt::format(
          "still trying to reach job '{}': {} (timeout {:.0f} s){}{}",
          policy_.job,
          in_vain_,
          to_seconds(policy_.join_timeout),
          hint.empty() ? "" : "; ",
          hint),
      .is_for_all = true});
}

void Member::begin_search(TimePoint now) {
  search_.clear();
  search_at_ = 0;
  ++searches_;
  const auto add = [this](const Endpoint& to) {
    const auto is_same = [&to](const CandidateAddress& target) {
      return !target.is_self && target.to == to;
    };
    const bool is_own = to == node_.listens || to.port == 0;
    if (!is_own && std::ranges::none_of(search_, is_same)) search_.push_back({.to = to});
  };
  const CandidateAddress self{.is_self = true, .to = {}};
  if (!is_lost(now)) return add(leader_);
  // Whoever led before and is back is the first to ask: without it there may be no majority. Not on
  // the first walk: it has not been heard for a while.
  const bool leader_may_live = dead_.of.term < voter_state_.obeyed.term && !led_itself();
  for (const Endpoint& survivor : survivors_)
    add(survivor);
  if (leader_may_live && searches_ > 1) add(leader_);
  bool has_self = false;
  for (const Successor& successor : successors_) {
    const bool is_self = successor.node == node_.incarnation;
    has_self |= is_self;
    if (is_self) {
      search_.push_back(self);
    } else {
      add(successor.at);
    }
  }
  if (is_electable() && !has_self && !votes_only_for_itself(now)) search_.push_back(self);
  if (leader_may_live) add(leader_);
  for (const Endpoint& endpoint : policy_.meet)
    add(endpoint);
  if (voter_state_.obeyed.term != 0 || searches_ == 1) return;
  for (const Endpoint& refusal : policy_.refusals)
    add(refusal);
}

void Member::next_candidate(TimePoint now, Effects& out) {
  std::optional<CandidateAddress> target;
  const bool is_told = redirected_to_.has_value();
  if (redirected_to_) {
    target = CandidateAddress{.is_self = false, .to = *redirected_to_};
    redirected_to_.reset();
  } else {
    if (search_at_ >= search_.size()) begin_search(now);
    if (search_.empty()) return pause(now);
    target = search_[search_at_++];
    if (search_at_ >= search_.size()) pause(now);
  }
  if (target->is_self) return take_turn(now, out);
  uplink_ = Uplink::kCalling;
  link_ = Link{2 * ++calls_ - 1};
  calls_back_ = !is_told && !is_lost(now);
  const Duration patience =
      std::min(policy_.patience, std::max(1, searches_) * policy_.call_patience);
  patience_until_ = now + patience_for(calls_back_ || is_told ? policy_.patience : patience);
  called_ = target->to;
  out.emplace_back(effects::Call{.link = link_, .to = called_});
}

/// Two round trips at least, as long as they are short against a lease.
Duration Member::patience_for(Duration least) {
  return jittered(std::max(least, 2 * std::min(round_trip_, longest_round_trip(lease_))));
}

void Member::pause(TimePoint now) {
  retry_at_ = now + jittered(pause_);
  pause_ = std::min(2 * pause_, policy_.retry_pause_max);
}

// Promises. ------------------------------------------------------------------------------------

void Member::on(const VoteRequest& ask, TimePoint now, Effects& /*out*/) {
  if (uplink_ != Uplink::kWaiting) return;
  asked_ = ask.term;
  patience_until_ = now + jittered(lease_ + margin_);
}

/// All wait for the first that can be reached, so a majority comes together there.
void Member::on(const Wait& wait, TimePoint now, Effects& out) {
  if (uplink_ != Uplink::kWaiting) return;
  is_answered_ = true;
  if (!wait.elsewhere) {
    loss_ = wait.loss;
    const bool is_known = awaited_ && awaited_->node == wait.node;
    awaited_ = wait;
    if (is_known) return;  // it only says more
    forwards_ = 0;
    patience_until_ = now + jittered(lease_ + margin_);
    return;
  }
  if (has_voted_) return;
  if (wait.node == node_.incarnation) {
    // It waits here. If both wait for each other, one takes its turn.
    const bool yields = awaited_ && awaited_->node < node_.incarnation;
    if (!yields) take_turn(now, out);
    return;
  }
  if (++forwards_ <= kForwardsMax) {
    redirected_to_ = wait.at;
  } else {
    forwards_ = 0;
  }
  hang_up(now, out);
}

void Member::take_turn(TimePoint now, Effects& out) {
  if (has_call()) hang_up(now, out);
  uplink_ = Uplink::kOwnTurn;
  patience_until_ = now + patience_for(policy_.patience);
}

bool Member::may_vote(TimePoint now) const {
  return voter_state_.obeyed.term != 0 && is_lost(now) && !runs_workers() && now >= may_vote_at_;
}

void Member::try_vote(TimePoint now, Effects& out) {
  // Who led promises only itself: whoever has proof of its death subtracts it from the voter set.
  if (uplink_ != Uplink::kWaiting || !may_vote(now) || votes_only_for_itself(now)) return;
  if (!std::exchange(has_sent_pre_vote_, true)) send(pre_vote(now), out);
  const std::int64_t term = std::exchange(asked_, 0);
  if (term <= voter_state_.term) return;
  send(
      Vote{.term = term, .dead = death_of_leader(now), .voter_state = voter_state_to_report(now)},
      out);
  voter_state_.term = term;
  voted_at_ = now;
  has_voted_ = true;
}

/// While a proof of its death would subtract it (E6): then it must not have promised anybody.
bool Member::votes_only_for_itself(TimePoint now) const {
  return was_leader_ && !may_use_half(now);
}

bool Member::is_electable() const {
  // Whoever was only offered a round is of no voter set before, so those who wait for it wait in
  // vain, unless the round was started. Then one of those who know that can lead.
  const RoundId newest = std::max(newest_started_, voter_state_.committed.round);
  if (newest.number == 0) return voter_state_.offered.is_member;
  return std::ranges::any_of(voter_sets_of(voter_state_), [&newest](const VoterSet* known) {
    return known->round == newest && known->is_member;
  });
}

void Member::learn_of_voter_state(const VoterState& other) {
  if (other.instance != voter_state_.instance) return;
  newest_started_ = std::max(newest_started_, other.committed.round);
}

std::optional<Wait> Member::awaited() const {
  if (uplink_ == Uplink::kFollowing) return std::nullopt;
  // Whoever led has to be waited for itself: it promises nobody.
  if (awaited_ && !votes_only_for_itself(seen_)) {
    return Wait{.node = awaited_->node, .at = awaited_->at, .elsewhere = true};
  }
  if (!is_electable()) return std::nullopt;
  return Wait{.node = node_.incarnation, .at = node_.listens, .elsewhere = false, .loss = loss_};
}

bool Member::may_take_turn(TimePoint now) const {
  const bool is_free = has_call() || uplink_ == Uplink::kNone;
  return is_electable() && is_free && !has_voted_ && may_vote(now);
}

/// Whoever led may win at any time by its own vote, so it tries all along; others have their turn.
bool Member::is_candidate(TimePoint now) const {
  const bool has_turn =
      uplink_ == Uplink::kOwnTurn || (was_leader_ && !has_voted_ && uplink_ != Uplink::kFollowing);
  return is_electable() && has_turn && may_vote(now);
}

Duration Member::regroup(TimePoint now) const {
  // A heartbeat is a little late where the leader's clock is slower.
  const Duration heartbeat = heartbeat_interval(lease_) + heartbeat_interval(lease_) / 16;
  return std::max(Duration::zero(), std::max(hold_until_, sought_since_) + heartbeat - now);
}

Vote Member::vote_for_itself(std::int64_t term, TimePoint now) {
  Vote vote{.term = term, .dead = death_of_leader(now), .voter_state = voter_state_to_report(now)};
  if (uplink_ == Uplink::kOwnTurn) {  // those who promise it wait here as long
    patience_until_ = now + jittered(lease_ + margin_);
  }
  voter_state_.term = term;
  voted_at_ = now;
  return vote;
}

/// As far as it is known here; by replacement only while the other node waits here.
LeaderDeath Member::death_of_leader(TimePoint now) const {
  const bool is_replaced = replaced_.contains(voter_state_.obeyed.leader) && is_lost(now);
  const bool is_in_time = dead_.of == voter_state_.obeyed && dead_.in_time;
  if (is_in_time || !is_replaced) return dead_;
  return {.of = voter_state_.obeyed, .in_time = false, .is_replaced = true};
}

/// What it knows of the past, with those counted that it has proofs of too late (E9), and without
/// its casting votes while somebody may still take it for dead in time (E8).
VoterState Member::voter_state_to_report(TimePoint now) const {
  VoterState told = voter_state_;
  change_voter_sets(told, [&](VoterSet& voters) {
    if (!may_use_half(now)) voters.is_leader = false;
    for (const KnownVoterSet& known : past_.voter_sets) {
      if (known.round == voters.round) count_replaced(known, voters);
    }
    if (voters.late.size() > kLateMax) voters.late.resize(kLateMax);
  });
  return told;
}

/// Adds to what is told of a voter set those of it whose name or rank others have taken.
void Member::count_replaced(const KnownVoterSet& known, VoterSet& told) const {
  for (const Incarnation member : known.members) {
    if (!replaced_.contains(member) || !past_.nodes.contains(member)) continue;
    const auto found = std::ranges::find(told.late, member, &LateDeath::node);
    if (found != told.late.end()) {
      found->is_replaced = true;
    } else {
      told.late.push_back({.node = member, .is_replaced = true});
    }
  }
}

std::vector<std::pair<NodeInfo, bool>> Member::missing(TimePoint now) const {
  std::vector<std::pair<NodeInfo, bool>> nodes;
  const bool has_led = led_ != 0 && led_itself();
  if (!has_led && voter_state_.obeyed.term != 0) {
    nodes.emplace_back(leader_node_, uplink_ != Uplink::kFollowing && now >= hold_until_);
  }
  for (const auto& [incarnation, node] : past_.nodes) {
    nodes.emplace_back(node.info, now >= node.heard_at + lease_ + margin_);
  }
  return nodes;
}

bool Member::has_vote(Incarnation node) const {
  return node == voter_state_.obeyed.leader ||
         std::ranges::any_of(past_.voter_sets, [node](const KnownVoterSet& known) {
           return known.members.contains(node);
         });
}

void Member::line_ended(Incarnation node, TimePoint now, Effects& out) {
  if (policy_.trusts_reset) count_late_death(node);
  advance(now, out);
}

/// A proof that came too late to subtract that node at once.
void Member::count_late_death(Incarnation node) {
  if (!past_.nodes.contains(node)) return;
  for (const KnownVoterSet& known : past_.voter_sets) {
    if (!known.members.contains(node)) continue;
    change_voter_sets(voter_state_, [&](VoterSet& voters) {
      const auto found = std::ranges::find(voters.late, node, &LateDeath::node);
      if (voters.round != known.round || found != voters.late.end()) return;
      voters.late.push_back({.node = node, .is_replaced = false});
    });
  }
}

/// Whoever leads now has subtracted nodes itself; which, nobody says, and none may count twice.
void Member::count_no_more_in(VoterSet& voters) {
  voters.late.clear();
  std::erase_if(past_.voter_sets, [&voters](const KnownVoterSet& known) {
    return known.round == voters.round;
  });
}

void Member::lead(const Instance& instance, std::int64_t term, TimePoint now, Effects& out) {
  if (has_call()) out.emplace_back(effects::Close{.link = link_});
  const bool was_silent = !leader_host_.empty() && dead_.of.term < voter_state_.obeyed.term;
  if (was_silent) out.emplace_back(effects::Absence{.host = leader_host_, .is_over = false});
  if (!policy_.has_own_console) report_lost_leader(was_silent, now, out);
  uplink_ = Uplink::kFollowing;
  link_ = kSelfLink;
  voter_state_.instance = instance;
  voter_state_.term = term;
  voter_state_.obeyed = {.term = term, .leader = node_.incarnation};
  end_wait();
  past_ = {};
  was_leader_ = true;
  led_ = term;
  lease_ = policy_.lease;
  margin_ = policy_.margin;
  report_workers(out);
  if (leaving_) send(*leaving_, out);
  advance(now, out);
}

/// For all that followed it and share this node's console.
void Member::report_lost_leader(bool was_silent, TimePoint now, Effects& out) {
  untold_kill_.clear();
  if (leader_host_.empty() || led_itself()) return;
  const std::string how =
      was_silent ? fmt::format("was not heard for {:.1f} s", to_seconds(now - heard_at_))
                 : "is gone";
  out.emplace_back(effects::Note{
      .text = fmt::format("the leader, {}, {}; {} leads now", leader_host_, how, node_.host),
      .is_for_all = true});
}

void Member::depose(PastLeadership past, TimePoint now, Effects& out) {
  lose_uplink(now, out);
  past_ = std::move(past);
  // Those that it subtracted itself while it led.
  for (const KnownVoterSet& known : past_.voter_sets) {
    change_voter_sets(voter_state_, [&known](VoterSet& told) {
      if (told.round != known.round || told.size <= known.size) return;
      told.size = known.size;
      told.late.clear();  // they were subtracted when it was elected; none may count twice
    });
  }
  for (const Incarnation dead : past_.dead)
    count_late_death(dead);
  sought_since_ = now;
  // By then nothing runs on what it granted.
  may_vote_at_ = std::max(now, past_.granted_until) + margin_;
  advance(now, out);
}

std::optional<Redirect> Member::leader() const {
  if (uplink_ != Uplink::kFollowing) return std::nullopt;
  const Endpoint& at = link_ == kSelfLink ? node_.listens : leader_;
  return Redirect{
      .job = policy_.job,
      .program = node_.workload.program,
      .role = node_.workload.role,
      .instance = voter_state_.instance,
      .has_begun = has_begun(voter_state_),
      .leadership = voter_state_.obeyed,
      .leader = at};
}

// Heartbeats and the lease.
// -------------------------------------------------------------------------

void Member::heartbeat(TimePoint now, Effects& out) {
  if (link_ == kSelfLink) return;
  send(Heartbeat{.number = ++heartbeats_, .heard = heard_}, out);
  sent_.push_back({.number = heartbeats_, .at = now});
  if (sent_.size() > kHeartbeatsKept) sent_.pop_front();
  heartbeat_at_ = now + heartbeat_interval(lease_);
}

void Member::on(const HeartbeatReply& answer, TimePoint now, Effects& out) {
  if (uplink_ != Uplink::kFollowing) return;
  if (answer.number > heard_) {
    heard_ = answer.number;
    send(Confirm{.heard = heard_}, out);
  }
  while (!sent_.empty() && sent_.front().number < answer.number)
    sent_.pop_front();
  if (!sent_.empty() && sent_.front().number == answer.number) {
    round_trip_ = std::max(now - sent_.front().at, round_trip_ - round_trip_ / 8);
    // The others of our slot send theirs at the same instant (leader_lease.cpp); never much later
    // than the lease needs.
    const Duration interval = heartbeat_interval(lease_);
    const Duration next = std::clamp(answer.next, interval / 8, interval * 5 / 4);
    if (answer.number == heartbeats_) heartbeat_at_ = sent_.front().at + next;
    in_time_until_ = std::max(in_time_until_, sent_.front().at + lease_ + margin_);
    const TimePoint until = sent_.front().at + std::min(answer.grant, lease_);
    if (until > lease_until_) {
      lease_until_ = until;
      out.emplace_back(effects::SetLease{.until = until});
      report_kill(out);
    }
  }
  VoterSet& committed = voter_state_.committed;
  const bool is_smaller = answer.voter_count > 0 && answer.voter_count < committed.size;
  if (answer.round == committed.round && is_smaller) {
    committed.size = answer.voter_count;
    count_no_more_in(committed);
  }
}

void Member::set_own_lease(TimePoint until, TimePoint heard_at, TimePoint now, Effects& out) {
  heard_at_ = heard_at;
  if (until != lease_until_) {
    lease_until_ = until;
    out.emplace_back(effects::SetLease{.until = until});
  }
  keep_lease(now, out);
}

void Member::keep_lease(TimePoint now, Effects& out) {
  if (!runs_workers() || now < lease_until_ || std::exchange(killed_, true)) return;
  const bool is_said_later = !policy_.has_own_console && !led_itself();
  std::string why = why_lease_is_over(now);
  if (is_said_later) untold_kill_ = why;
  out.emplace_back(effects::KillWorkers{.why = std::move(why), .is_said_later = is_said_later});
}

/// Nobody else leads: not yet, or the leader was the same all the time.
void Member::report_kill(Effects& out) {
  const std::string why = std::exchange(untold_kill_, {});
  if (why.empty()) return;
  out.emplace_back(effects::Note{
      .text = fmt::format("{}, so the workers of this node were killed", why), .is_for_all = true});
}

std::string Member::why_lease_is_over(TimePoint now) const {
  const double silent = to_seconds(now - heard_at_);
  const bool was_silent = now - heard_at_ >= lease_ / 2;
  if (led_itself()) {
    if (was_silent) return fmt::format("too few nodes were heard for {:.1f} s", silent);
    return fmt::format(
        "enough nodes were heard {:.1f} s ago, but too few of them have heard this one, which "
        "leads, for a lease",
        silent);
  }
  if (was_silent) {
    return fmt::format("the leader, {}, was not heard for {:.1f} s", leader_host_, silent);
  }
  return fmt::format(
      "the leader, {}, was heard {:.1f} s ago, and has not heard enough nodes for a lease",
      leader_host_,
      silent);
}

void Member::keep_following(TimePoint now, Effects& out) {
  if (uplink_ != Uplink::kFollowing || link_ == kSelfLink) return;
  if (now >= hold_until_) return hang_up(now, out);
  if (now >= heartbeat_at_) heartbeat(now, out);
  if (ready_at_ != TimePoint() && now >= ready_at_) {
    ready_at_ = {};
    report_workers(out);
  }
  if (stands_by_at_ && now >= *stands_by_at_) {
    stands_by_at_.reset();
    report_spare(out);
  }
  call_again(now, out);
}

// A second connection to the leader. ------------------------------------------------------------

void Member::hear(TimePoint now, Effects& out) {
  heard_at_ = now;
  hold_until_ = now + lease_ + margin_;
  // Once the leader has been greeted there it ends the first connection itself.
  if (second_ && !second_->greeted_at) drop_second(out);
  if (!second_) greeted_in_vain_ = 0;
}

/// From when on the leader is called again: it is silent, and owes an answer.
TimePoint Member::silent_at() const {
  const auto is_owed = [this](const SentHeartbeat& sent) { return sent.number > heard_; };
  const auto owed = std::ranges::find_if(sent_, is_owed);
  if (owed == sent_.end()) return kNever;
  return std::max(heard_at_ + silence_before_call(lease_), owed->at + call_interval(lease_));
}

void Member::call_again(TimePoint now, Effects& out) {
  if (second_ && now < second_->until) return;
  drop_second(out);
  if (now < silent_at()) return;
  const Link link{2 * ++calls_ - 1};
  second_ = Second{.link = link, .until = now + patience_with_second(), .greeted_at = {}};
  out.emplace_back(effects::Call{.link = link, .to = leader_});
}

/// It has been reached, and has to answer as soon as it can: one that is only slow gets more time
/// with each greeting.
void Member::greet_on_second(TimePoint now, Effects& out) {
  constexpr int kDoublingsMax = 3;
  if (!second_ || !second_->link) return;
  second_->greeted_at = now;
  greeted_in_vain_ = std::min(greeted_in_vain_ + 1, kDoublingsMax);
  second_->until = now + patience_with_second() * (1 << greeted_in_vain_);
  out.emplace_back(effects::Send{.to = *second_->link, .message = hello()});
}

Duration Member::patience_with_second() const {
  const Duration least = call_interval(lease_);
  return std::max(least, 2 * std::min(round_trip_, 2 * least));
}

/// The leader has read the greeting on the second one: it answers there, and ends the first. Either
/// may be seen first.
void Member::switch_to_second(TimePoint now, Effects& out) {
  const auto second = std::exchange(second_, std::nullopt).value_or(Second());
  lose_uplink(now, out);
  uplink_ = Uplink::kWaiting;
  link_ = second.link.value_or(Link{});
  hello_at_ = second.greeted_at.value_or(now);
  called_ = leader_;
  calls_back_ = true;
  patience_until_ = now + patience_for(policy_.patience);
}

void Member::drop_second(Effects& out) {
  const auto dropped = std::exchange(second_, std::nullopt);
  if (dropped && dropped->link) out.emplace_back(effects::Close{.link = *dropped->link});
}

// Rounds. --------------------------------------------------------------------------------------

void Member::on(const OfferRound& offer, TimePoint /*now*/, Effects& out) {
  const std::int64_t obeyed = voter_state_.obeyed.term;
  const bool is_ours = offer.round.term == obeyed && offer.round > voter_state_.offered.round &&
                       voter_state_.term == obeyed;
  if (uplink_ != Uplink::kFollowing || !is_ours || runs_workers()) return;
  if (voter_state_.undecided.size() >= kUndecidedMax)
    return;  // as many leaders have started nothing
  if (offer.committed.round >= voter_state_.committed.round) {
    const auto known = voter_sets_of(voter_state_);
    const bool is_leader = std::ranges::any_of(known, [&](const VoterSet* told) {
      return told->round == offer.committed.round && told->is_leader;
    });
    voter_state_.committed = offer.committed;
    voter_state_.committed.is_leader = is_leader;
    count_no_more_in(voter_state_.committed);
  }
  keep_undecided(offer);
  voter_state_.offered = {
      .round = offer.round,
      .size = offer.voter_count,
      .is_member = true,
      .is_leader = link_ == kSelfLink,
      .late = {},
      .members = {}};
  voter_state_.offered_nodes = offer.nodes;
  hosts_ = offer.hosts;
  std::vector<RoundMember>& members = voter_state_.offered.members;
  const int others_run = offer.nodes - (offer.leader_runs ? 1 : 0);
  for (const Successor& successor : offer.successors) {  // those that run come first, then spares
    const int others = static_cast<int>(members.size());
    if (others + 1 >= offer.voter_count) break;
    members.push_back({.node = successor.node, .runs = others < others_run});
  }
  voter_state_.was_to_run = offer.place.has_value();
  voter_state_.leader_ran = offer.leader_runs;
  voter_state_.group_rank = offer.place ? offer.place->group_rank : -1;
  voter_state_.progress = offer.progress;
  voter_state_.verdict
      .reset();  // of an earlier leader that no majority heard, or nobody would offer
  successors_ = offer.successors;
  offer_ = offer;
  send(Acknowledge{.round = offer.round}, out);
}

/// A leader that offers anew has not started what it offered before. Another one may have.
void Member::keep_undecided(const OfferRound& offer) {
  const VoterSet& last = voter_state_.offered;
  if (last.size != 0) voter_state_.undecided.push_back(last);
  std::erase_if(voter_state_.undecided, [&](const VoterSet& voters) {
    return voters.round.term == offer.round.term;
  });
  forget_decided();
}

void Member::forget_decided() {
  std::erase_if(voter_state_.undecided, [this](const VoterSet& voters) {
    return voters.round <= voter_state_.committed.round;
  });
}

void Member::on(const StartRound& start, TimePoint now, Effects& out) {
  // R7: the start of a round that was not offered here, or was offered before this connection.
  if (uplink_ != Uplink::kFollowing || !offer_ || offer_->round != start.round) return;
  const OfferRound offer = *offer_;
  offer_.reset();
  voter_state_.committed = voter_state_.offered;
  forget_decided();
  if (link_ != kSelfLink) was_leader_ = false;
  stands_by_at_.reset();
  if (!offer.place) return report_spare(out);
  has_told_spare_ = false;
  news_ = {};
  news_.round = start.round;
  killed_ = false;
  // R8: whoever was held up (a frozen agent that thaws) finds that its lease is over.
  if (now >= lease_until_) return report_workers(out);
  news_.state = WorkersState::kRunning;
  took_part_ = true;
  out.emplace_back(effects::StartWorkers{
      .round = start.round,
      .place = *offer.place,
      .master = offer.master,
      .hosts = offer.hosts,
      .progress = offer.progress});
}

/// A node that is back may find its own place taken, as long as nobody knows that it was lost.
void Member::stand_by(TimePoint now) {
  if (!stands_by_at_) stands_by_at_ = now + lease_ + margin_;
}

void Member::report_spare(Effects& out) {
  if (std::exchange(has_told_spare_, true)) return;
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
          "all {} places of job '{}' are taken; this node stands by, and takes over when a node is "
          "lost ({} leads, and runs {})",
          policy_.nodes.max(),
          policy_.job,
          leader_host_,
          leader_workload_.command),
      .is_for_all = true});
}

void Member::on(const StopRound& stop, TimePoint /*now*/, Effects& out) {
  if (uplink_ != Uplink::kFollowing) return;
  if (offer_ && offer_->round <= stop.round) offer_.reset();
  const bool was_ours = news_.round.number != 0 && news_.round <= stop.round;
  if (was_ours) out.emplace_back(effects::StopWorkers{.order = stop});
  if (!runs_workers()) report_workers(out);
}

void Member::workers(const WorkerNews& news, TimePoint now, Effects& out) {
  if (news.round < news_.round) return;
  auto failure = news.failure ? news.failure : news_.failure;
  news_ = news;
  if (news_.state == WorkersState::kStopped) unfit_ = std::exchange(news_.unfit, {});
  if (news_.state == WorkersState::kFailed || news_.state == WorkersState::kStopped) {
    news_.failure = std::move(failure);
  }
  report_workers(out);
  advance(now, out);
}

void Member::report_workers(Effects& out) {
  if (uplink_ != Uplink::kFollowing) return;
  WorkerNews told = news_;
  told.unfit = unfit_;
  send(std::move(told), out);
}

void Member::failure_read(const FailureText& text, Effects& out) {
  if (uplink_ == Uplink::kFollowing) send(text, out);
}

void Member::send(Message message, Effects& out) {
  out.emplace_back(effects::Send{.to = link_, .message = std::move(message)});
}

// The end. -------------------------------------------------------------------------------------

void Member::on(const VerdictNews& told, TimePoint /*now*/, Effects& out) {
  if (uplink_ != Uplink::kFollowing) return;
  voter_state_.verdict = told.verdict;
  if (told.is_final) final_ = told.verdict;
  send(VerdictHeard{}, out);
}

void Member::signalled(int signal, bool whole_job, TimePoint now, Effects& out) {
  if (!leaving_) {
    leaving_ = Leaving{.signal = signal, .whole_job = whole_job};
    if (uplink_ == Uplink::kFollowing) send(*leaving_, out);
  } else if (signal == SIGKILL && uplink_ == Uplink::kFollowing) {
    send(Leaving{.signal = SIGKILL, .whole_job = leaving_->whole_job}, out);
  }
  advance(now, out);
}

/// Whoever started more nodes than MAX may have meant it.
bool Member::is_spare_wanted() const {
  const std::string& step = node_.workload.step;
  return policy_.spares || (!step.empty() && step == leader_workload_.step);
}

/// A job that was done without this node may have been another one: what this node was started for
/// has not run.
void Member::finish_by(const Verdict& verdict, Effects& out) {
  const bool is_done = verdict.exit_status == kExitOk;
  if (!is_done || took_part_ || leads() || is_spare_wanted()) {
    return finish(verdict.exit_status, verdict.why, out, leads());
  }
  finish(
      kExitTryAgain,
      fmt::format(
          "job '{}' is done, and this node has never taken part in it (it ran {}, led by {}); give "
          "a "
          "job of its own another --rdzv-endpoint, and --spares to a node that is to end with 0",
          policy_.job,
          leader_workload_.command,
          leader_host_),
      out);
}

/// For so long that the node which was to listen there has met that program as well.
bool Member::is_endpoint_foreign(TimePoint now) const {
  return policy_.ends_at_foreign && foreign_since_ && voter_state_.obeyed.term == 0 &&
         !begun_.exists() && now >= *foreign_since_ + policy_.refusal_wait;
}

void Member::consider_end(TimePoint now, Effects& out) {
  if (runs_workers()) return;
  if (refused_) {
    const bool is_said_there = is_at_refusal();  // by a node of its own job
    return finish(refused_->exit_status, refused_->why, out, !is_said_there);
  }
  if (final_) return finish_by(*final_, out);
  const bool has_leader = uplink_ == Uplink::kFollowing;
  if (leaving_ && !has_leader) {
    const bool has_saved = contract::is_notice(leaving_->signal) && news_.has_saved;
    const int killed = exit_status_of_signal(leaving_->signal);
    return finish(has_saved ? policy_.notice_status : killed, "", out);
  }
  if (has_leader) return;
  if (is_endpoint_foreign(now)) {
    return finish(
        kExitTryAgain,
        fmt::format(
            "{} is taken by a program that is not ddprun: {}; stop it (ss -tlnp there tells which "
            "it is), or choose another port (--rdzv-endpoint, --master-port)",
            policy_.meet.front().to_string(),
            in_vain_),
        out);
  }
  const Duration patience = wait_for_leader();
  if (now < sought_since_ + patience) return;
  const auto& verdict = voter_state_.verdict;  // told, though not that a majority knows
  if (verdict && verdict->exit_status != kExitOk) {
    return finish(verdict->exit_status, verdict->why, out);
  }
  if (verdict) {  // without this node the others may have begun another round
    return finish(
        kExitTryAgain,
        fmt::format(
            "all workers have exited with 0, but the leader was lost before a majority of the "
            "job's "
            "nodes knew, and none could be reached within {:.0f} s",
            to_seconds(patience)),
        out);
  }
  finish(kExitTryAgain, why_given_up(to_seconds(patience)), out);
}

std::string Member::why_given_up(double waited_s) const {
  const bool is_new = voter_state_.obeyed.term == 0;
  if (is_new && !loss_.why.empty()) {
    return fmt::format(
        "job '{}' has begun before, and had no leader for {:.0f} s: {}",
        policy_.job,
        waited_s,
        loss_.why);
  }
  if (is_new && !survivors_.empty()) {
    return fmt::format(
        "job '{}' has begun before, and its nodes, such as the one at {}, had no leader within "
        "{:.0f} s",
        policy_.job,
        survivors_.front().to_string(),
        waited_s);
  }
  if (is_new) {
    return fmt::format(
        "job '{}' not found within {:.0f} s: {}; check that ddprun runs there, and that this host "
        "and "
        "port are right and reachable",
        policy_.job,
        waited_s,
        in_vain_.empty() ? "no answer came" : in_vain_);
  }
  return fmt::format(
      "{}no majority of the job's nodes could be reached within {:.0f} s{}{}",
      led_itself() ? "" : "the leader is lost, and ",
      waited_s,
      loss_.why.empty() ? "" : ": ",
      loss_.why);
}

/// A lost node is wanted back where no fewer can run, and where another takes its place.
Duration Member::wait_for_leader() const {
  if (voter_state_.obeyed.term == 0) return policy_.join_timeout;
  const bool is_fixed = policy_.nodes.min() == policy_.nodes.max();
  const bool is_wanted_back = is_fixed || policy_.trusts_replacement;
  if (!is_wanted_back) return policy_.search_timeout;
  return policy_.regather_timeout.value_or(policy_.join_timeout);
}

void Member::finish(int exit_status, std::string why, Effects& out, bool is_own_word) {
  if (std::exchange(ended_, true)) return;
  if (uplink_ != Uplink::kNone && uplink_ != Uplink::kOwnTurn && link_ != kSelfLink) {
    out.emplace_back(effects::Close{.link = link_});
  }
  drop_second(out);
  // Where one of two nodes is lost without proof neither can lead, so either may say it is over.
  const bool is_one_of_two =
      voter_state_.committed.round.number != 0 && voter_state_.committed.size <= 2;
  const bool speaks_for_job = leads() || (!final_ && is_one_of_two);
  uplink_ = Uplink::kNone;
  out.emplace_back(effects::Finish{
      .exit_status = exit_status,
      .why = std::move(why),
      .speaks_for_job = speaks_for_job,
      .is_said_elsewhere = !is_own_word});
}

// Time. ----------------------------------------------------------------------------------------

void Member::tick(TimePoint now, Effects& out) {
  advance(now, out);
}

void Member::advance(TimePoint now, Effects& out) {
  if (ended_) return;
  seen_ = now;
  keep_lease(now, out);
  keep_following(now, out);
  try_vote(now, out);
  consider_end(now, out);
  if (!ended_ && uplink_ != Uplink::kFollowing) search(now, out);
}

Duration Member::jittered(Duration duration) {
  std::uniform_int_distribution<Duration::rep> spread(0, duration.count() / 2);
  return duration * 3 / 4 + Duration(spread(dice_));
}

std::optional<TimePoint> Member::next_deadline() const {
  if (ended_) return std::nullopt;
  TimePoint next = kNever;
  // What was due by the last event has been done, or waits for something else.
  const auto not_after = [&](TimePoint at) {
    if (at > seen_) next = std::min(next, at);
  };
  if (runs_workers() && !killed_) not_after(lease_until_);
  const bool has_leader = uplink_ == Uplink::kFollowing;
  if (has_leader && link_ != kSelfLink) {
    not_after(hold_until_);
    not_after(heartbeat_at_);
    if (stands_by_at_) not_after(*stands_by_at_);
    if (ready_at_ != TimePoint()) not_after(ready_at_);
    not_after(second_ ? second_->until : silent_at());
  }
  if (!has_leader) {
    not_after(uplink_ == Uplink::kNone ? retry_at_ : patience_until_);
    if (uplink_ == Uplink::kWaiting || calls_back_) not_after(hold_until_);
    not_after(may_vote_at_);
    if (!runs_workers()) {
      if (voter_state_.obeyed.term != 0 && !has_begun(voter_state_)) not_after(forget_at());
      not_after(sought_since_ + wait_for_leader());
      not_after(reports_loss_at());
    }
    not_after(past_.over_for_all_at);
    for (const auto& [incarnation, node] : past_.nodes) {
      if (policy_.trusts_replacement) not_after(node.heard_at + lease_ + margin_);
    }
  }
  if (next == kNever) return std::nullopt;
  return next;
}

}  // namespace ddprun
