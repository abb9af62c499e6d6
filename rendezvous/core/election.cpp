#include "rendezvous/core/election.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr std::int64_t kReplacedStep = 1'000;  // more than a node leads alone before it is replaced

}  // namespace

// The callers. ---------------------------------------------------------------------------------

void Election::await(Link link, const Hello& hello, TimePoint now) {
  const auto [caller, is_new] = callers_.insert_or_assign(
      link, Caller{.hello = hello, .pre_vote = {}, .sent = {}, .until = {}});
  member_.learn_of_voter_state(hello.voter_state);
  extend(caller->second, now);
}

/// The two exchanged something. Neither waits for the next message much longer than for a lease and
/// a margin (leader_search.cpp).
void Election::extend(Caller& caller, TimePoint now) {
  caller.until = now + 2 * (policy_.lease + policy_.margin);
  callers_due_ = std::min(callers_due_, caller.until);
}

void Election::on(Link link, const PreVote& pre_vote, TimePoint now, Effects& out) {
  const auto caller = callers_.find(link);
  if (caller == callers_.end()) return;
  caller->second.pre_vote = pre_vote;
  member_.learn_of_voter_state(pre_vote.voter_state);
  extend(caller->second, now);
  request_vote(link, caller->second, now, out);
}

void Election::on(Link link, const Vote& vote, TimePoint now) {
  const auto caller = callers_.find(link);
  if (!candidate_ || caller == callers_.end()) return;
  candidate_->voted(caller->second.hello.node.incarnation, vote);
  extend(caller->second, now);
}

void Election::drop_silent_callers(TimePoint now, Effects& out) {
  if (now < callers_due_) return;
  callers_due_ = kNever;
  std::erase_if(callers_, [&](const auto& entry) {
    const auto& [link, caller] = entry;
    const bool is_silent = now >= caller.until;
    if (is_silent) out.emplace_back(effects::Close{.link = link});
    if (!is_silent) callers_due_ = std::min(callers_due_, caller.until);
    return is_silent;
  });
}

void Election::send_away(const Redirect& leader, Effects& out) {
  for (const auto& [link, caller] : std::exchange(callers_, {})) {
    out.emplace_back(effects::Send{.to = link, .message = leader});
    out.emplace_back(effects::Close{.link = link});
  }
}

void Election::report_awaited(TimePoint now, Effects& out) {
  auto awaited = member_.awaited();
  // This node cannot lead, and none that can was heard: newcomers are told so.
  const bool is_at_a_loss = !awaited && !member_.loss().why.empty();
  if (is_at_a_loss) {
    awaited = Wait{
        .node = member_.node().incarnation,
        .at = member_.node().listens,
        .elsewhere = false,
        .loss = member_.loss()};
  }
  if (!awaited) return;
  for (auto& [link, caller] : callers_) {
    const Instance& theirs = caller.hello.voter_state.instance;
    if (theirs.exists() && (is_at_a_loss || theirs != member_.instance())) continue;
    if (caller.sent == awaited) continue;
    const bool is_other = !caller.sent || caller.sent->node != awaited->node;
    caller.sent = awaited;
    if (is_other) extend(caller, now);  // else it only says more
    out.emplace_back(effects::Send{.to = link, .message = *awaited});
  }
}

Election::Callers Election::end() {
  candidate_.reset();
  return std::exchange(callers_, {});
}

// The votes. -----------------------------------------------------------------------------------

void Election::mind_replacements(TimePoint now) {
  if (!policy_.trusts_replacement) return;
  std::set<Incarnation> replaced;
  for (const auto& [node, is_silent] : member_.missing(now)) {
    const auto replaces = [this, &node = node](const auto& entry) {
      const Hello& hello = entry.second.hello;
      // It may have joined us before we lost the other one, and so our majority.
      const Instance& theirs = hello.voter_state.instance;
      const bool is_fresh = !theirs.exists() || (theirs == member_.instance() &&
                                                 hello.voter_state.offered.round.number == 0);
      const bool has_rank = node.node_rank && hello.node.node_rank;
      const bool is_same =
          has_rank ? node.node_rank == hello.node.node_rank : node.host == hello.node.host;
      return is_fresh && is_same && node.incarnation != hello.node.incarnation;
    };
    if (is_silent && std::ranges::any_of(callers_, replaces)) replaced.insert(node.incarnation);
  }
  member_.set_replaced(std::move(replaced));
}

void Election::mind_turn(TimePoint now, Effects& out) {
  if (callers_.empty() || !member_.search().may_take_turn(now)) return;
  const auto awaited = member_.awaited();
  for (const auto& [link, caller] : callers_) {
    if (awaited && caller.pre_vote && awaited->node == caller.hello.node.incarnation) return;
  }
  if (would_win(now)) member_.take_turn(now, out);
}

std::optional<ElectionResult> Election::mind_candidacy(TimePoint now, Effects& out) {
  if (!member_.search().is_candidate(now)) {
    candidate_.reset();
    return std::nullopt;
  }
  if (!candidate_) {
    if (!would_win(now)) return std::nullopt;
    std::int64_t newest = member_.term();
    for (const auto& [link, caller] : callers_) {
      if (caller.pre_vote) newest = std::max(newest, caller.pre_vote->voter_state.term);
    }
    candidate_.emplace(member_.node().incarnation, setting(now));
    // A node that is replaced may have led on alone, in terms that no node here knows.
    const std::int64_t step = member_.voter().has_replaced() ? kReplacedStep : 1;
    candidate_->campaign(member_.vote_for_itself(newest + step, now));
    for (auto& [link, caller] : callers_)
      request_vote(link, caller, now, out);
  }
  if (!candidate_) return std::nullopt;
  Candidate& candidate = *candidate_;
  claim_fences(candidate, now, out);
  auto result = candidate.election_result();
  if (result) result->hosts = split_hosts(member_.voter().hosts());
  return result;
}

void Election::request_vote(Link link, Caller& caller, TimePoint now, Effects& out) {
  if (!caller.pre_vote || !candidate_) return;
  if (caller.pre_vote->voter_state.term >= candidate_->term()) {
    candidate_.reset();  // requests votes again, in a newer term
    return;
  }
  out.emplace_back(effects::Send{.to = link, .message = VoteRequest{.term = candidate_->term()}});
  extend(caller, now);
}

/// Whether the callers could make this node the leader. A vote request in vain would bind them to a
/// term that no node leads.
bool Election::would_win(const Voter& voter, bool has_fence, TimePoint now) const {
  Candidate::Setting with = setting(now);
  with.rule.has_fence = has_fence;
  Candidate trial(voter.node().incarnation, std::move(with));
  constexpr std::int64_t kAny = 1;
  const auto as_vote = [](const PreVote& pre_vote) {
    return Vote{.term = kAny, .dead = pre_vote.dead, .voter_state = pre_vote.voter_state};
  };
  trial.campaign(as_vote(voter.pre_vote(now)));
  for (const auto& [link, caller] : callers_) {
    if (!caller.pre_vote) continue;
    trial.voted(caller.hello.node.incarnation, as_vote(*caller.pre_vote));
  }
  return trial.election_result().has_value() || !trial.fences_wanted().empty();
}

Candidate::Setting Election::setting(TimePoint now) const {
  Candidate::Setting setting;
  setting.rule = {.nodes = policy_.nodes, .has_fence = policy_.has_fence};
  setting.may_use_half = member_.voter().may_use_half(now);
  setting.lease = policy_.lease;
  setting.margin = policy_.margin;
  setting.regroup = member_.regroup(now);
  setting.led = member_.voter().led();
  for (const auto& [voters, fence] : fences_) {
    if (fence.instance != member_.instance() || !fence.holder) continue;
    const bool is_ours = *fence.holder == member_.node().incarnation;
    (is_ours ? setting.fences : setting.fences_of_others).insert(voters);
  }
  return setting;
}

/// Those that would make this node the leader, each once.
void Election::claim_fences(Candidate& candidate, TimePoint now, Effects& out) {
  candidate.update(setting(now));
  for (const RoundId& voters : candidate.fences_wanted()) {
    const auto found = fences_.find(voters);
    const bool is_claimed = found != fences_.end() && found->second.instance == member_.instance();
    if (is_claimed) continue;
    fences_.insert_or_assign(voters, Fence{.instance = member_.instance(), .holder = {}});
    out.emplace_back(effects::ClaimFence{
        .instance = member_.instance().bootstrap_leader,
        .round = voters,
        .node = member_.node().incarnation});
  }
}

void Election::fence_held(Incarnation instance, RoundId round, Incarnation holder) {
  const auto fence = fences_.find(round);
  // The fence of an older instance may come late, when one of that number was claimed in another.
  const bool is_asked =
      fence != fences_.end() && fence->second.instance.bootstrap_leader == instance;
  if (is_asked) fence->second.holder = holder;
}

// No quorum. -----------------------------------------------------------------------------------

void Election::mind_quorum_loss(
    const std::optional<QuorumLoss>& of_instance, TimePoint now, Effects& out) {
  constexpr auto kInterval = std::chrono::seconds(1);
  const bool is_due = member_.search().has_waited_long(now) && !member_.search().awaits_another();
  if (!is_due || now < described_at_ + kInterval) return;
  described_at_ = now;
  // A newcomer was offered no round, so it is in no voter set. It knows what it was told by a node
  // that waited, which may be gone by now.
  const bool is_new = member_.voter_state().offered.round.number == 0;
  QuorumLoss loss = is_new ? of_instance.value_or(member_.loss()) : QuorumLoss();
  if (!is_new && !would_win(now)) {
    loss = quorum_loss(quorum_loss_facts(now));
  } else if (!is_new && candidate_ && !candidate_->fences_wanted().empty()) {
    QuorumLossFacts facts = quorum_loss_facts(now);
    facts.waits_for_fence = true;
    loss = quorum_loss(facts);
  }
  if (loss != member_.loss()) member_.lost_quorum(loss, now, out);
}

/// Asks the rules what would end the wait, by trying it on a copy of what this node knows.
QuorumLossFacts Election::quorum_loss_facts(TimePoint now) const {
  QuorumLossFacts facts;
  facts.round = split_hosts(member_.voter().hosts());
  facts.here.push_back(policy_.node.host);
  std::set<Incarnation> here;
  std::vector<std::string> new_here;
  for (const auto& [link, caller] : callers_) {
    const VoterState& voter_state = caller.hello.voter_state;
    const bool is_ours = voter_state.instance == member_.instance();
    if (!is_ours || voter_state.offered.round.number == 0) {
      new_here.push_back(caller.hello.node.host);
      continue;
    }
    facts.here.push_back(caller.hello.node.host);
    here.insert(caller.hello.node.incarnation);
  }
  Voter after_resets = member_.voter();
  Voter after_replacements = member_.voter();
  std::set<Incarnation> replaced;
  for (const auto& [node, is_silent] : member_.missing(now)) {
    if (!is_silent || here.contains(node.incarnation)) continue;
    if (!member_.voter().has_vote(node.incarnation)) continue;
    facts.missing.push_back(node.host);
    if (std::ranges::find(new_here, node.host) != new_here.end()) facts.back.push_back(node.host);
    replaced.insert(node.incarnation);
    const Leadership& obeyed = member_.voter_state().obeyed;
    if (node.incarnation == obeyed.leader) {
      if (member_.is_leader_dead()) facts.ended.push_back(node.host);
      after_resets.goodbye(obeyed, now);
    } else {
      after_resets.line_ended(node.incarnation);
    }
  }
  after_replacements.set_replaced(std::move(replaced));
  facts.ends_by_reset = policy_.trusts_reset && would_win(after_resets, policy_.has_fence, now);
  facts.ends_by_replacement = would_win(after_replacements, policy_.has_fence, now);
  facts.ends_by_fence = !policy_.has_fence && would_win(member_.voter(), true, now);
  facts.trusts_replacement = policy_.trusts_replacement;
  return facts;
}

}  // namespace ddprun
