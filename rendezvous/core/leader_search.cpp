#include "rendezvous/core/leader_search.hpp"

#include "rendezvous/core/earliest_deadline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr int kRedirectsMax = 64;
constexpr int kForwardsMax = 16;
constexpr std::size_t kSurvivorsMax = 16;

void remove_prefix(std::string_view prefix, std::string& text) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
}

}  // namespace

LeaderSearch::LeaderSearch(const RendezvousPolicy& policy, Voter& voter, WorkerLease& workers)
    : policy_(policy),
      voter_(voter),
      workers_(workers),
      report_(policy, voter, workers),
      dice_(static_cast<std::minstd_rand::result_type>(policy.seed)),
      survivors_(policy.survivors) {
  times_.pause = policy.retry_pause;
}

// The calls. -----------------------------------------------------------------------------------

void LeaderSearch::begin_again(TimePoint now) {
  state_ = State::kIdle;
  times_.since = now;
  find_successor(now);  // or the leader itself, if it is not lost: the first try is at once
}

void LeaderSearch::find_successor(TimePoint now) {
  order_.addresses.clear();
  order_.searches = 0;
  times_.retry_at = now;
  times_.pause = policy_.retry_pause;
}

void LeaderSearch::found() {
  end_call();
  state_ = State::kFound;
  redirects_.count = 0;
  redirects_.to.reset();
  survivors_.clear();
  report_.end();
}

void LeaderSearch::end(Effects& out) {
  if (has_call()) hang_up(out);
  state_ = State::kIdle;
}

void LeaderSearch::connected(TimePoint now, Effects& out) {
  state_ = State::kWaiting;
  times_.patience_until = now + patience_for(policy_.patience);
  call_.greeted_at = now;
  Hello hello = voter_.hello();
  if (is_at_refusal()) hello.checks_port = policy_.endpoints.front().port;
  out.emplace_back(effects::Send{.to = call_.link, .message = std::move(hello)});
}

void LeaderSearch::closed(const std::string& why, bool is_foreign, TimePoint now) {
  const bool had_call = has_call();
  if (had_call && !is_at_refusal()) report_.note_foreign(call_.to, is_foreign, now);
  if (had_call) failed(why);
  if (!is_at_refusal()) report_.set_taken(is_waiting());
  if (had_call) end_call();
}

void LeaderSearch::hang_up(Effects& out) {
  out.emplace_back(effects::Close{.link = call_.link});
  end_call();
}

void LeaderSearch::end_call() {
  state_ = State::kIdle;
  talk_ = {};
}

void LeaderSearch::wait_on(Link link, TimePoint greeted_at, TimePoint now) {
  state_ = State::kWaiting;
  call_.link = link;
  call_.greeted_at = greeted_at;
  call_.to = voter_.leader().node.listens;
  call_.is_to_leader = true;
  times_.patience_until = now + patience_for(policy_.patience);
}

void LeaderSearch::advance(TimePoint now, Effects& out) {
  // In a job that never began, as far as this node knows, no node can be elected. It waits for
  // another bootstrap leader, after the nodes that may know better had time to ask for its vote.
  const bool may_forget = voter_.state().obeyed.term != 0 && !has_begun(voter_.state()) &&
                          !workers_.are_running() && voter_.is_lost(now);
  if (may_forget && now >= forget_at()) forget_job(now, out);
  if (state_ == State::kOwnTurn && now >= times_.patience_until) state_ = State::kIdle;
  // A leader that says itself that it waits for a leader is as good to wait with as any node.
  const bool is_silent_leader = call_.is_to_leader && !talk_.awaited;
  if (has_call() && is_silent_leader && voter_.is_lost(now)) {
    hang_up(out);
    find_successor(now);
  } else if (has_call() && now >= times_.patience_until) {
    const char* how = "accepts connections but does not respond";
    if (is_waiting()) report_.set_taken(true);
    if (state_ == State::kCalling) how = "does not answer";
    if (talk_.awaited) how = "takes part, and waits for a leader as well";
    failed(fmt::format("{} {}", call_.to.to_string(), how));
    hang_up(out);
  }
  report_.report(survivors_, times_.since, now, out);
  if (state_ == State::kIdle && now >= times_.retry_at) next_candidate(now, out);
}

/// From here on a spare is like a node that starts now and is told of the job by nodes that run it.
void LeaderSearch::forget_job(TimePoint now, Effects& out) {
  if (has_call()) hang_up(out);  // that node knows this one as who it was
  if (voter_.knows_that_it_has_begun()) {
    survivors_ = {voter_.leader().node.listens};
    for (const Successor& each : voter_.successors()) {
      if (survivors_.size() < kSurvivorsMax) survivors_.push_back(each.at);
    }
  }
  rejoin_as_new();
  times_.since = now;
}

/// In the order in which they are tried: only the leader while it is not lost; else the survivors,
/// the successors and the endpoints.
std::vector<LeaderSearch::CandidateAddress> LeaderSearch::candidate_addresses(TimePoint now) const {
  std::vector<CandidateAddress> addresses;
  const auto add = [&](const Endpoint& to) {
    const bool is_own = to == voter_.node().listens || to.port == 0;
    const bool is_new = std::ranges::find(addresses, CandidateAddress(to)) == addresses.end();
    if (!is_own && is_new) addresses.emplace_back(to);
  };
  const Endpoint& leader = voter_.leader().node.listens;
  if (!voter_.is_lost(now)) {
    add(leader);
    return addresses;
  }
  for (const Endpoint& survivor : survivors_)
    add(survivor);
  // An earlier leader that is back is called first: without it there may be no majority. Not in the
  // first search: it has not been heard for a while.
  const bool leader_may_live = voter_.leader_may_live() && !voter_.led_itself();
  if (leader_may_live && order_.searches > 0) add(leader);
  bool has_self = false;
  for (const Successor& successor : voter_.successors()) {
    const bool is_self = successor.node == voter_.node().incarnation;
    has_self |= is_self;
    if (is_self) {
      addresses.emplace_back(std::nullopt);
    } else {
      add(successor.at);
    }
  }
  const bool has_turn = voter_.is_electable() && !voter_.votes_only_for_itself(now);
  if (has_turn && !has_self) addresses.emplace_back(std::nullopt);
  if (leader_may_live) add(leader);
  for (const Endpoint& endpoint : policy_.endpoints)
    add(endpoint);
  if (voter_.state().obeyed.term != 0 || order_.searches == 0) return addresses;
  for (const Endpoint& refusal : policy_.refusals)
    add(refusal);
  return addresses;
}

void LeaderSearch::next_candidate(TimePoint now, Effects& out) {
  CandidateAddress target;
  const bool is_redirected = redirects_.to.has_value();
  if (is_redirected) {
    target = std::exchange(redirects_.to, std::nullopt);
  } else {
    if (order_.next >= order_.addresses.size()) {
      order_.addresses = candidate_addresses(now);
      ++order_.searches;
      order_.next = 0;
    }
    if (order_.addresses.empty()) return pause(now);
    target = order_.addresses[order_.next++];
    if (order_.next >= order_.addresses.size()) pause(now);
  }
  if (!target) return take_turn(now, out);
  state_ = State::kCalling;
  call_.link = new_link();
  call_.to = *target;
  call_.is_to_leader = !is_redirected && !voter_.is_lost(now);
  const Duration patience =
      std::min(policy_.patience, std::max(1, order_.searches) * policy_.call_patience);
  const bool is_likely = call_.is_to_leader || is_redirected;
  times_.patience_until = now + patience_for(is_likely ? policy_.patience : patience);
  out.emplace_back(effects::Call{.link = call_.link, .to = call_.to});
}

bool LeaderSearch::is_at_refusal() const {
  return std::ranges::find(policy_.refusals, call_.to) != policy_.refusals.end();
}

/// People do not know the port at which a refusal is reported, and in general no program listens.
void LeaderSearch::failed(std::string why) {
  if (!is_at_refusal()) report_.failed(std::move(why));
}

void LeaderSearch::pause(TimePoint now) {
  times_.retry_at = now + jittered(times_.pause);
  times_.pause = std::min(2 * times_.pause, policy_.retry_pause_max);
}

/// Two round trips at least, as long as they are short against a lease.
Duration LeaderSearch::patience_for(Duration least) {
  const KnownLeader& leader = voter_.leader();
  const Duration round_trip = std::min(leader.round_trip, longest_round_trip(leader.lease));
  return jittered(std::max(least, 2 * round_trip));
}

Duration LeaderSearch::jittered(Duration duration) {
  std::uniform_int_distribution<Duration::rep> spread(0, duration.count() / 2);
  return duration * 3 / 4 + Duration(spread(dice_));
}

// What arrives where it waits. -----------------------------------------------------------------

void LeaderSearch::heard(TimePoint now) {
  if (!is_at_refusal()) report_.note_foreign(call_.to, false, now);
}

void LeaderSearch::on(const Redirect& redirect, TimePoint now, Effects& out) {
  const bool runs_workers = workers_.are_running();
  if (!runs_workers && voter_.leaves_for(redirect.instance, redirect.has_begun)) rejoin_as_new();
  voter_.note_begun(redirect);
  const Leadership& leadership = redirect.leadership;
  const bool is_same = voter_.may_join(redirect.instance, redirect.has_begun);
  const bool is_after =
      is_same && leadership.term < voter_.state().term && voter_.voted_in_vain(now);
  // It voted for a candidate that did not come to lead, and may not obey an older leader. Under a
  // new incarnation, without a vote, it can join (E4).
  if (is_after && !voter_.is_dead(leadership) && !runs_workers) rejoin_as_new();
  const bool is_ours = leadership == voter_.state().obeyed && voter_.is_lost(now);
  if (redirects_.count == 0) redirects_.since = now;
  ++redirects_.count;
  const TimePoint missed_by = redirects_.since + 2 * longest_round_trip(voter_.leader().lease);
  if (is_ours && order_.next > 0 && now < missed_by) {
    // That node heard our leader a little later than this one, and will miss it a little later.
    --order_.next;
    hang_up(out);
    times_.retry_at = now + policy_.retry_pause;
    return;
  }
  const bool is_news = is_same && leadership.term >= voter_.state().term &&
                       !voter_.is_dead(leadership) && redirect.leader != voter_.node().listens;
  if (is_news && redirects_.count <= kRedirectsMax) {
    redirects_.to = redirect.leader;
  } else {
    redirects_.count = 0;
  }
  hang_up(out);
}

/// All wait for the first node that can be reached, so a majority comes together there.
void LeaderSearch::on(const Wait& wait, TimePoint now, Effects& out) {
  report_.answered();
  if (!wait.elsewhere) {
    report_.set_loss(wait.loss);
    const bool is_known = talk_.awaited && talk_.awaited->node == wait.node;
    talk_.awaited = wait;
    if (is_known) return;  // it only says more
    redirects_.forwards = 0;
    times_.patience_until = now + jittered(voter_.leader().lease + voter_.leader().margin);
    return;
  }
  if (talk_.has_voted) return;
  const Incarnation self = voter_.node().incarnation;
  if (wait.node == self) {
    // The node there waits here. If both wait for each other, one of them takes its turn.
    const bool yields = talk_.awaited && talk_.awaited->node < self;
    if (!yields) take_turn(now, out);
    return;
  }
  if (++redirects_.forwards <= kForwardsMax) {
    redirects_.to = wait.at;
  } else {
    redirects_.forwards = 0;
  }
  hang_up(out);
}

void LeaderSearch::on(const VoteRequest& request, TimePoint now, Effects& /*out*/) {
  talk_.requested_term = request.term;
  times_.patience_until = now + jittered(voter_.leader().lease + voter_.leader().margin);
}

std::optional<Refuse> LeaderSearch::refused(const Refuse& refuse, TimePoint now, Effects& out) {
  const bool is_stranger = refuse.is_stranger || refuse.job != policy_.job;
  if (is_stranger && is_at_refusal()) return std::nullopt;  // it knows nothing of our endpoint
  if (is_stranger) report_.note_stranger(now);
  const bool may_be_elsewhere = is_stranger && report_.may_be_elsewhere(call_.to, now);
  // By its own job: it was replaced while it was cut off.
  const bool has_lost_place = refuse.instance && refuse.instance == voter_.state().instance;
  const bool is_new = voter_.state().obeyed.term == 0;
  if (has_lost_place || (is_new && !may_be_elsewhere)) {
    Refuse for_good = refuse;
    if (is_at_refusal()) remove_prefix(call_.to.to_string() + ": ", for_good.why);
    return for_good;
  }
  if (is_new) report_.report_old_address(refuse.why, now, out);
  report_.failed(refuse.why);
  return std::nullopt;
}

// What others call here to report. -------------------------------------------------------------

void LeaderSearch::note_leader(const Redirect& redirect, TimePoint now, Effects& out) {
  const bool leaves = voter_.leaves_for(redirect.instance, redirect.has_begun);
  if (leaves && !workers_.are_running()) {
    if (has_call()) hang_up(out);
    rejoin_as_new();
  }
  voter_.note_begun(redirect);
  const bool is_news = voter_.may_join(redirect.instance, redirect.has_begun) &&
                       redirect.leadership.term >= voter_.state().term &&
                       !voter_.is_dead(redirect.leadership);
  const bool is_called = has_call() && call_.to == redirect.leader;
  if (!is_news || is_called) return;
  if (has_call()) hang_up(out);
  state_ = State::kIdle;
  redirects_.to = redirect.leader;
  times_.retry_at = now;
}

bool LeaderSearch::note_survivor(const Endpoint& at, TimePoint now) {
  const bool is_new = std::ranges::find(survivors_, at) == survivors_.end();
  if (!is_new || at == voter_.node().listens || survivors_.size() >= kSurvivorsMax) return false;
  survivors_.push_back(at);
  if (state_ == State::kIdle) find_successor(now);
  return true;
}

void LeaderSearch::forget_survivors() {
  survivors_.clear();
  voter_.forget_begun();
  report_.forget_survivors();
}

bool LeaderSearch::waits_at_survivor() const {
  return is_waiting() && talk_.awaited &&
         std::ranges::find(survivors_, call_.to) != survivors_.end();
}

// Votes. ---------------------------------------------------------------------------------------

void LeaderSearch::try_vote(TimePoint now, Effects& out) {
  // A node that led votes only for itself: a node with proof of its death subtracts it from the
  // voter set.
  if (!is_waiting() || !may_vote(now) || voter_.votes_only_for_itself(now)) return;
  const auto send = [&](Message message) {
    out.emplace_back(effects::Send{.to = call_.link, .message = std::move(message)});
  };
  if (!std::exchange(talk_.has_sent_pre_vote, true)) send(voter_.pre_vote(now));
  const std::int64_t term = std::exchange(talk_.requested_term, 0);
  if (term <= voter_.state().term) return;
  send(voter_.vote(term, now));
  talk_.has_voted = true;
}

std::optional<Wait> LeaderSearch::awaited(TimePoint now) const {
  if (state_ == State::kFound) return std::nullopt;
  // A node that led has to be waited for itself: it votes for no other.
  if (talk_.awaited && !voter_.votes_only_for_itself(now)) {
    return Wait{.node = talk_.awaited->node, .at = talk_.awaited->at, .elsewhere = true};
  }
  if (!voter_.is_electable()) return std::nullopt;
  return Wait{
      .node = voter_.node().incarnation,
      .at = voter_.node().listens,
      .elsewhere = false,
      .loss = report_.loss()};
}

bool LeaderSearch::may_take_turn(TimePoint now) const {
  const bool is_free = has_call() || state_ == State::kIdle;
  return voter_.is_electable() && is_free && !talk_.has_voted && may_vote(now);
}

void LeaderSearch::take_turn(TimePoint now, Effects& out) {
  if (has_call()) hang_up(out);
  state_ = State::kOwnTurn;
  times_.patience_until = now + patience_for(policy_.patience);
}

/// A node that led may win at any time by its own vote, so it tries all along; others have their
/// turn.
bool LeaderSearch::is_candidate(TimePoint now) const {
  const bool led = voter_.was_leader() && !talk_.has_voted && state_ != State::kFound;
  const bool has_turn = state_ == State::kOwnTurn || led;
  return has_turn && voter_.is_electable() && may_vote(now);
}

Vote LeaderSearch::vote_for_itself(std::int64_t term, TimePoint now) {
  if (state_ == State::kOwnTurn) {  // the voters wait here as long
    times_.patience_until = now + jittered(voter_.leader().lease + voter_.leader().margin);
  }
  return voter_.vote(term, now);
}

void LeaderSearch::rejoin_as_new() {
  voter_.rejoin_as_new();
  workers_.forget();
  order_.addresses.clear();
  report_.forget_loss();
}

TimePoint LeaderSearch::next_deadline(TimePoint last_event) const {
  EarliestDeadline next(last_event);
  next.add(state_ == State::kIdle ? times_.retry_at : times_.patience_until);
  if (is_waiting() || call_.is_to_leader) next.add(voter_.leader().hold_until);
  if (workers_.are_running()) return next.at();
  const bool may_forget = voter_.state().obeyed.term != 0 && !has_begun(voter_.state());
  if (may_forget) next.add(forget_at());
  next.add(times_.since + report_.timeout());
  next.add(report_.reports_loss_at(times_.since));
  return next.at();
}

}  // namespace ddprun
