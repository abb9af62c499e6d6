#include "rendezvous/core/gathering.hpp"

#include "base/exit_status.hpp"
#include "rendezvous/core/earliest_deadline.hpp"
#include "rendezvous/core/gathering_text.hpp"
#include "rendezvous/core/quorum_loss.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuietLastCall = 2s;  // most nodes come within that, without a report
constexpr auto kQuietWait = 5s;      // for other nodes, before a report

/// Others may run the job, or wait for one of its nodes, while as many new nodes come as would
/// begin it at once. In a Slurm step no new node comes.
bool may_be_elsewhere(const RendezvousPolicy& policy) {
  return !policy.endpoints.empty() && policy.node.workload.step.empty();
}

}  // namespace

struct Gathering::Turnout {
  int ready = 0;
  int fit = 0;                      // of these
  bool one_may_call_again = false;  // its connection has just ended; or its death is known soon
  bool lifeline_is_awaited = false;
};

Gathering::Gathering(
    const LeaderContext& context,
    const Roster& roster,
    const Rounds& rounds,
    const ElectionResult& election_result,
    TimePoint now)
    : context_(context),
      roster_(roster),
      rounds_(rounds),
      since_(now),
      regroup_{
          .round = election_result.newest,
          .heard = election_result.heard,
          .unheard = election_result.unheard,
          .until = now + election_result.wait},
      known_nodes_(election_result.known_nodes) {
  const RendezvousPolicy& policy = context.policy;
  const bool has_begun = rounds.has_begun();
  if (!has_begun && !policy.survivors.empty()) {
    not_before_ = now + survivors_heard_within(policy.lease);
  } else if (!has_begun && may_be_elsewhere(policy)) {
    not_before_ = now + announced_within(policy.lease);
  }
}

void Gathering::begin(TimePoint now) {
  since_ = now;
  has_reported_waiting_ = false;
}

void Gathering::joined(const Hello& hello, bool is_new) {
  const VoterSet& offered = hello.voter_state.offered;
  const bool is_of_round = offered.round == regroup_.round;
  const bool is_counted = rounds_.has_begun() && is_of_round && offered.is_member;
  if (is_new && !is_counted) ++known_nodes_;
  if (is_new) last_call_until_.reset();  // it begins again
  const bool was_to_run = is_of_round && hello.voter_state.was_to_run;
  if (was_to_run && regroup_.heard.insert(hello.node.incarnation).second) --regroup_.unheard;
}

void Gathering::hold_for(const NodeInfo& node, TimePoint now) {
  // By then it has forgotten the other instance and comes here, or is gone (member.cpp).
  const TimePoint until = now + 3 * (context_.policy.lease + context_.policy.margin);
  held_for_.insert_or_assign(place_of(node), until);
}

void Gathering::hold_no_more_for(const NodeInfo& node) {
  if (!held_for_.empty()) held_for_.erase(place_of(node));
}

/// A node that was suspended listens only from now on: messages that arrived meanwhile may be read
/// after this event.
void Gathering::wakes(TimePoint now) {
  if (!may_begin_elsewhere()) return;
  if (now - kOverslept > wakes_by_) {
    not_before_ = std::max(not_before_, now + announced_within(context_.policy.lease));
  }
}

bool Gathering::may_begin_elsewhere() const {
  return !rounds_.has_begun() && may_be_elsewhere(context_.policy);
}

Gathering::Turnout Gathering::turnout(TimePoint now) const {
  Turnout turnout;
  for (const auto& [incarnation, node] : roster_.nodes()) {
    switch (node.state()) {
      case Roster::State::kReady:
        ++turnout.ready;
        if (roster_.is_fit(node, now)) ++turnout.fit;
        break;
      case Roster::State::kDisconnected:
        turnout.one_may_call_again = true;
        break;
      case Roster::State::kAwaitsLifeline:
        turnout.lifeline_is_awaited = true;
        break;
      case Roster::State::kLeaving:
      case Roster::State::kAwaitsReport:
      case Roster::State::kBusy:
        break;
    }
  }
  return turnout;
}

Gathering::Step Gathering::step(const LeaderLease& lease, TimePoint now, Effects& out) {
  const Roster::Node* const own = roster_.find(context_.self.incarnation);
  const bool can_lead = own != nullptr && own->is_ready();
  const bool regroups = regroup_.unheard > 0 && now < regroup_.until;
  std::erase_if(held_for_, [now](const auto& entry) { return now >= entry.second; });
  if (!held_for_.empty() || !can_lead || regroups || now < not_before_) return {};
  if (roster_.any_may_run()) return {};  // R2
  const Turnout turnout = this->turnout(now);
  if (turnout.ready < context_.policy.nodes.min()) {
    last_call_until_.reset();
    return wait_for_min(turnout.ready, lease, now, out);
  }
  // A spare, too, is to have a vote.
  if (turnout.lifeline_is_awaited) return {};
  // Spares that are there from the start have a vote, and the first nodes run.
  const bool is_expecting = !rounds_.has_begun() && turnout.ready < context_.policy.expected;
  if (is_expecting && now < since_ + context_.policy.expected_wait) return {};
  const int wanted = context_.policy.spares ? turnout.fit : turnout.ready;
  if (wanted < context_.policy.nodes.max()) {
    if (turnout.one_may_call_again) return {};
    if (!rounds_.has_begun()) {
      if (!last_call_until_) last_call_until_ = now + context_.policy.last_call;
      if (now < *last_call_until_) {
        report_last_call(turnout.ready, now, out);
        return {};
      }
    }
  }
  // A round that cannot start would keep those away who could help to start one.
  const auto is_ready = [this](Incarnation incarnation) {
    const Roster::Node* const node = roster_.find(incarnation);
    return node != nullptr && node->is_ready();
  };
  return {.offers = lease.majority_is(is_ready)};
}

/// Until as many nodes are here as a round needs at least, or that is not to be expected any more.
Gathering::Step Gathering::wait_for_min(
    int ready, const LeaderLease& lease, TimePoint now, Effects& out) {
  std::string why;
  if (too_few_may_come(lease, now)) {
    why = too_few_left_text(facts(ready));
  } else if (now < since_ + timeout()) {
    report_waiting(ready, now, out);
    return {};
  } else {
    why = timed_out_text(facts(ready), timeout());
  }
  return {.verdict = Verdict{.exit_status = kExitTryAgain, .why = std::move(why)}};
}

Duration Gathering::timeout() const {
  const RendezvousPolicy& policy = context_.policy;
  const Duration again = policy.regather_timeout.value_or(policy.join_timeout);
  return rounds_.has_begun() ? again : policy.join_timeout;
}

/// In a Slurm step nothing replaces a node that has died: whether the nodes that are here, are
/// silent, or have not come yet would not be enough. A suspended one comes back by itself, well
/// within a lease.
bool Gathering::too_few_may_come(const LeaderLease& lease, TimePoint now) const {
  const RendezvousPolicy& policy = context_.policy;
  if (!policy.regather_timeout || !rounds_.has_begun()) return false;
  if (now < since_ + policy.lease + policy.margin) return false;
  int silent = roster_.lost().unseen();
  for (const KnownVoterSet& voters : lease.voter_sets())
    silent = std::max(silent, unseen_in(voters));
  silent += static_cast<int>(roster_.lost().searching());
  const auto stays = [](const auto& entry) { return !entry.second.is_leaving(); };
  const auto here = static_cast<int>(std::ranges::count_if(roster_.nodes(), stays));
  const int late = std::max(0, policy.expected - known_nodes_);
  return here + silent + late < policy.nodes.min();
}

void Gathering::report_waiting(int ready, TimePoint now, Effects& out) {
  if (now < since_ + kQuietWait || std::exchange(has_reported_waiting_, true)) return;
  const TimePoint until = since_ + timeout();
  out.emplace_back(effects::Note{
      .text = waiting_text(facts(ready), now - since_, until - now), .is_for_all = true});
}

TimePoint Gathering::reports_last_call_at() const {
  return last_call_until_.value_or(kNever) - context_.policy.last_call + kQuietLastCall;
}

void Gathering::report_last_call(int ready, TimePoint now, Effects& out) {
  if (now < reports_last_call_at() || std::exchange(has_reported_last_call_, true)) return;
  const Duration left = last_call_until_.value_or(now) - now;
  out.emplace_back(effects::Note{.text = last_call_text(facts(ready), left), .is_for_all = true});
}

GatheringFacts Gathering::facts(int ready) const {
  const RendezvousPolicy& policy = context_.policy;
  std::vector<const NodeInfo*> here;
  here.reserve(roster_.nodes().size());
  for (const auto& [incarnation, node] : roster_.nodes()) {
    here.push_back(&node.info);
  }
  const Endpoint& endpoint =
      policy.endpoints.empty() ? context_.self.listens : policy.endpoints.front();
  return {
      .policy = policy,
      .here = std::move(here),
      .ready = ready,
      .missing = rounds_.has_begun() ? missing_hosts() : "",
      .endpoint = endpoint.to_string()};
}

/// Of the last round; empty: none, or not known.
std::string Gathering::missing_hosts() const {
  std::vector<std::string> here;
  here.reserve(roster_.nodes().size());
  for (const auto& [incarnation, node] : roster_.nodes())
    here.push_back(node.info.host);
  return spelled_hosts(hosts_without(rounds_.hosts(), here));
}

TimePoint Gathering::next_deadline(TimePoint after) const {
  if (!rounds_.is_gathering()) return kNever;
  const RendezvousPolicy& policy = context_.policy;
  EarliestDeadline next(after);
  next.add(since_ + timeout());
  if (policy.regather_timeout) next.add(since_ + policy.lease + policy.margin);
  if (!has_reported_waiting_) next.add(since_ + kQuietWait);
  if (last_call_until_) next.add(*last_call_until_);
  if (last_call_until_ && !has_reported_last_call_) next.add(reports_last_call_at());
  next.add(not_before_);
  for (const auto& [place, until] : held_for_)
    next.add(until);
  if (regroup_.unheard > 0) next.add(regroup_.until);
  if (!rounds_.has_begun()) next.add(since_ + policy.expected_wait);
  return next.at();
}

}  // namespace ddprun
