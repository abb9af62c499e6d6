#include "rendezvous/core/rendezvous_node.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// The name may lead to another address by now. A first packet that is lost is repeated after 1 s.
constexpr auto kNoticePatience = 1s;
constexpr std::size_t kCallersMax = 16'384;
constexpr auto kUnheardWait = 5s;  // for a node of the job to be heard, before people are told
constexpr std::int64_t kReplacedStep = 1'000;  // more than a node leads alone before it is replaced
constexpr std::uint64_t kFirstNotice = 1ULL << 62U;  // apart from the links of Member's calls

/// Of two instances of one job. By clocks of two machines, which may differ: it decides no more
/// than which of them ends.
bool is_later(const Instance& a, const Instance& b) {
  return a.bootstrapped_ms != b.bootstrapped_ms ? a.bootstrapped_ms > b.bootstrapped_ms
                                                : a.bootstrap_leader > b.bootstrap_leader;
}

/// The host of a node, and its Slurm step if that of `other` is another one.
std::string where(const NodeInfo& node, const NodeInfo& other) {
  const std::string& step = node.workload.step;
  if (step.empty() || step == other.workload.step) return node.host;
  return fmt::format("{} in Slurm step {}", node.host, step);
}

/// What a node runs that `other` does not, for people: "train.py (on n0: train.py --lr 1)".
std::string spelled(const NodeInfo& node, const NodeInfo& other) {
  const Workload& workload = node.workload;
  const std::string role = workload.role == other.workload.role
                               ? std::string()
                               : fmt::format(" with --role {}", workload.role);
  return fmt::format(
      "{}{} (on {}: {})", workload.program, role, where(node, other), workload.command);
}

}  // namespace

RendezvousNode::RendezvousNode(RendezvousPolicy policy)
    : policy_(std::move(policy)), member_(policy_) {}

void RendezvousNode::apply(const Event& event, TimePoint now, Effects& out) {
  if (waits_for_instance() && member_.waits_at_survivor()) hears_of_instance(now);  // until now
  std::visit([&](const auto& what) { on(what, now); }, event);
  if (refuses_until_) {
    route(now, out);
    return mind_refusals(now, out);
  }
  drop_silent_callers(now);
  route(now, out);
  mind_replacements(now);
  forget_instance(now);
  if (!coordinator_) {
    mind_turn(now);
    mind_callers(now);
  }
  mind_candidacy(now);
  mind_quorum_loss(now);
  mind_search(now);
  route(now, out);
  mind_leadership(now, out);
}

void RendezvousNode::on(const Begin& event, TimePoint now) {
  member_.set_unfit(event.unfit);
  if (!policy_.cannot_host.empty()) return begin_to_refuse(now);
  if (policy_.bootstraps) return bootstrap(now);
  member_.begin(now, from_member_);
}

/// It leads nobody, and calls nobody.
void RendezvousNode::begin_to_refuse(TimePoint now) {
  refuses_until_ = now + policy_.refusal_wait;
  from_member_.emplace_back(effects::Note{
      .text = fmt::format(
          "{}; this node ends with {}, once the others of the job have been told so (within {:.0f} "
          "s)",
          policy_.cannot_host,
          kExitTryAgain,
          to_seconds(policy_.refusal_wait)),
      .is_for_all = true});
}

/// Once all have been told, or those that are left are too late.
void RendezvousNode::mind_refusals(TimePoint now, Effects& out) {
  const int others = std::max(policy_.expected, policy_.nodes.max()) - 1;
  const bool are_all_told = told_that_it_cannot_host_ >= others;
  if (now < refuses_until_.value_or(now) && !are_all_told) return;
  out.emplace_back(effects::Finish{.exit_status = kExitTryAgain, .why = {}});
}

void RendezvousNode::on(const StoreReached& /*event*/, TimePoint /*now*/) {
  if (coordinator_) coordinator_->store_reached();
}

/// Too late once others have begun the job: then this node joins them.
void RendezvousNode::on(const BecameHost& event, TimePoint now) {
  if (!may_bootstrap()) return;
  policy_.master = event.master;
  member_.listen_at(event.listens);
  bootstrap(now);
}

/// From a node that knows of it.
void RendezvousNode::hears_of_instance(TimePoint now) {
  knows_of_instance_ = true;
  heard_of_instance_at_ = now;
}

bool RendezvousNode::may_bootstrap() const {
  return !coordinator_ && !knows_of_instance_ && !member_.instance().exists() &&
         !member_.has_ended();
}

/// It was offered no round, so it is in no voter set and has nothing to wait for of its own.
bool RendezvousNode::is_newcomer() const {
  return member_.voter_state().offered.round.number == 0;
}

/// In which it never had a leader.
bool RendezvousNode::waits_for_instance() const {
  return knows_of_instance_ && !coordinator_ && member_.voter_state().obeyed.term == 0 &&
         !member_.has_ended();
}

/// An instance of which nobody is heard any more has ended, for all that can be known here: as for
/// a node that starts now.
void RendezvousNode::forget_instance(TimePoint now) {
  if (!waits_for_instance() || now < heard_of_instance_at_ + policy_.search_timeout) return;
  knows_of_instance_ = false;
  from_member_.emplace_back(effects::Note{
      .text = fmt::format(
          "job '{}' had begun before, and none of the nodes that took part was heard by {} for "
          "{:.0f} s; it starts from the beginning",
          policy_.job,
          policy_.node.host,
          to_seconds(policy_.search_timeout)),
      .is_for_all = true});
  member_.forget_survivors(now, from_member_);
  if (hosts_) bootstrap(now);
}

/// Leads the first term.
void RendezvousNode::bootstrap(TimePoint now) {
  bootstraps_ = true;
  hosts_ = true;
  ElectionResult election_result;
  election_result.instance = {
      .bootstrap_leader = member_.node().incarnation, .bootstrapped_ms = policy_.bootstrapped_ms};
  election_result.term = 1;
  election_result.voter_sets.push_back(
      {.round = {},
       .size = 1,
       .members = {member_.node().incarnation},
       .half_suffices = false,
       .casting = {}});
  lead(election_result, now);
}

void RendezvousNode::lead(const ElectionResult& election_result, TimePoint now) {
  candidate_.reset();
  Coordinator& leads = coordinator_.emplace(policy_, member_.node(), election_result, now);
  leads.join(kSelfLink, member_.voter().hello(), now, from_coordinator_);
  member_.lead(election_result.instance, election_result.term, now, from_member_);
  announce_at_ = election_result.term > 1 ? now + kAnnounceInterval : kNever;
  announce_until_ = now + policy_.search_timeout;
  const auto waiting = std::exchange(callers_, {});
  // Whoever was offered a round first: a newcomer may have the rank of one whose vote is needed.
  for (const bool is_newcomer : {false, true}) {
    for (const auto& [link, caller] : waiting) {
      const VoterState& voter_state = caller.hello.voter_state;
      const Instance& theirs = voter_state.instance;
      if (is_newcomer != (voter_state.offered.round.number == 0)) continue;
      if (!theirs.exists() || theirs == election_result.instance) {
        leads.join(link, caller.hello, now, from_coordinator_);
      } else {
        greet_survivor(link, caller.hello, now);
      }
    }
  }
}

/// This node bootstrapped a job that had been bootstrapped before, and started no round.
void RendezvousNode::give_way(TimePoint now) {
  if (!coordinator_) return;
  for (const auto& [incarnation, node] : coordinator_->nodes()) {
    const bool is_other = node.link && *node.link != kSelfLink;
    if (is_other) from_member_.emplace_back(effects::Close{.link = *node.link});
  }
  bootstraps_ = false;
  coordinator_.reset();
  member_.abdicate(now, from_member_);
}

void RendezvousNode::on(const Connected& event, TimePoint now) {
  if (notices_.erase(event.link) != 0) {
    if (const auto known = leader()) {
      from_member_.emplace_back(effects::Send{.to = event.link, .message = *known});
    } else if (member_.searches_for_leader(now)) {
      from_member_.emplace_back(effects::Send{
          .to = event.link,
          .message = Survivor{
              .job = policy_.job,
              .program = policy_.node.workload.program,
              .role = policy_.node.workload.role,
              .instance = member_.instance(),
              .at = member_.node().listens}});
    }
    from_member_.emplace_back(effects::Close{.link = event.link});
    return;
  }
  member_.connected(event.link, now, from_member_);
}

void RendezvousNode::on(const Closed& event, TimePoint now) {
  notices_.erase(event.link);
  callers_.erase(event.link);
  if (coordinator_) coordinator_->lost(event.link, now, from_coordinator_);
  member_.closed(event.link, event.why, event.is_foreign, now, from_member_);
}

void RendezvousNode::on(const Received& event, TimePoint now) {
  const bool from_our_call = static_cast<std::uint64_t>(event.link) % 2 == 1;
  const auto* const redirect = std::get_if<Redirect>(&event.message);
  if (redirect != nullptr && redirect->has_begun && from_our_call) hears_of_instance(now);
  if (from_our_call) {
    member_.received(event.link, event.message, now, from_member_);
    if (member_.follows_another() && member_.knows_that_it_has_begun()) hears_of_instance(now);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&event.message)) return greet(event.link, *hello, now);
  if (redirect != nullptr) return told(event.link, *redirect, now);
  if (const auto* survivor = std::get_if<Survivor>(&event.message)) {
    return told_of_survivor(event.link, *survivor, now);
  }
  if (const auto* vote = std::get_if<Vote>(&event.message)) {
    const auto caller = callers_.find(event.link);
    if (candidate_ && caller != callers_.end()) {
      candidate_->voted(caller->second.hello.node.incarnation, *vote);
      extend(caller->second, now);
    }
    return;
  }
  if (const auto* pre_vote = std::get_if<PreVote>(&event.message)) {
    const auto caller = callers_.find(event.link);
    if (caller == callers_.end()) return;
    caller->second.pre_vote = *pre_vote;
    member_.learn_of_voter_state(pre_vote->voter_state);
    extend(caller->second, now);
    ask(caller->first, caller->second, now);
    return;
  }
  if (coordinator_) coordinator_->received(event.link, event.message, now, from_coordinator_);
}

/// Who leads calls to say so, mostly at the endpoint, where this node may have bootstrapped the job
/// anew.
void RendezvousNode::told(Link link, const Redirect& redirect, TimePoint now) {
  from_member_.emplace_back(effects::Close{.link = link});
  if (redirect.job != policy_.job) return;  // whose endpoint this was before
  // A second job neither ends the first nor draws its nodes. One that has not begun calls on the
  // first, which refuses it.
  const bool is_stranger = !is_same_job(redirect, policy_.node.workload);
  const bool is_waiting = coordinator_ && !coordinator_->has_begun();
  if (is_stranger && !(is_waiting && redirect.has_begun)) return;
  if (is_stranger && !stranger_since_) stranger_since_ = now;
  // Whom it looks for may have had our address before.
  if (is_stranger && policy_.meets_by_name && now < *stranger_since_ + kOldAddressWait) return;
  const auto known = leader();
  const bool is_other = known && known->instance != redirect.instance;
  if (is_other && redirect.has_begun) {
    if (coordinator_ && !coordinator_->has_begun()) {
      give_way(now);
    } else if (coordinator_ && is_later(known->instance, redirect.instance)) {
      return coordinator_->end_as_double(
          doubled_by(redirect.leader.to_string()), from_coordinator_);
    } else {
      return notify(
          redirect.leader, now);  // it, or whom we name to it, finds that it is the later one
    }
  }
  if (redirect.has_begun && !is_stranger) hears_of_instance(now);
  member_.told_of_leader(redirect, now, from_member_);
}

/// Only a node that bootstrapped the job again has to know.
void RendezvousNode::told_of_survivor(Link link, const Survivor& survivor, TimePoint now) {
  from_member_.emplace_back(effects::Close{.link = link});
  const bool is_ours = survivor.job == policy_.job && is_same_job(survivor, policy_.node.workload);
  const bool is_founder =
      coordinator_ && !coordinator_->has_begun() && coordinator_->instance() != survivor.instance;
  if (!is_ours || !is_founder) return;
  hears_of_instance(now);
  give_way(now);
  member_.told_of_survivor(survivor.at, now, from_member_);
}

/// Who leads this node, as others are told. One that was elected leads what has begun: a round may
/// have been started unseen.
std::optional<Redirect> RendezvousNode::leader() const {
  auto known = member_.leader();
  if (known && coordinator_) known->has_begun = coordinator_->has_begun();
  return known;
}

/// It belongs to another instance of this job.
void RendezvousNode::greet_survivor(Link link, const Hello& hello, TimePoint now) {
  const auto close = [&] { from_member_.emplace_back(effects::Close{.link = link}); };
  if (!coordinator_) return close();
  const bool has_begun_there = has_begun(hello.voter_state);
  const bool has_begun_here = coordinator_->has_begun();
  const Instance& theirs = hello.voter_state.instance;
  if (has_begun_there && !has_begun_here) {
    give_way(now);
    member_.told_of_survivor(hello.node.listens, now, from_member_);
    return await(link, hello, now);
  }
  if (has_begun_there && is_later(coordinator_->instance(), theirs)) {
    coordinator_->end_as_double(doubled_by(hello.node.host), from_coordinator_);
    return close();
  }
  if (has_begun_there) {
    from_member_.emplace_back(effects::Send{
        .to = link,
        .message = Refuse{
            .job = policy_.job,
            .exit_status = kExitTryAgain,
            .why = doubled_by(policy_.node.host)}});
    return close();
  }
  if (!has_begun_here) coordinator_->hold_for(hello.node, now);
  redirect(link);
}

std::string RendezvousNode::doubled_by(const std::string& where) const {
  return fmt::format(
      "job '{}' was begun twice: an earlier instance of it runs at {}, so this one, bootstrapped "
      "later, "
      "ends; start ddprun here again to join it",
      policy_.job,
      where);
}

/// The caller may have come back to the machine of a node that is missed: then the kernel there
/// knows whether anything of that node is left.
void RendezvousNode::probe_namesakes(const NodeInfo& caller, TimePoint now) {
  if (!policy_.trusts_reset) return;
  const auto look = [&](const NodeInfo& node) {
    const bool is_other = node.incarnation != caller.incarnation && node.host == caller.host;
    if (!is_other || !is_same_machine(node.machine, caller.machine)) return;
    // A leader may be known by the name that it was called by.
    const bool is_numeric =
        node.listens.host.find_first_not_of("0123456789.") == std::string::npos ||
        node.listens.host.find(':') != std::string::npos;
    if (is_numeric && node.listens.host != caller.listens.host) return;
    from_member_.emplace_back(effects::ProbeLines{.node = node.incarnation});
  };
  if (coordinator_) {
    for (const auto& [incarnation, node] : coordinator_->nodes())
      look(node.info);
    for (const auto& [incarnation, node] : coordinator_->lost_nodes().silent())
      look(node.info);
    return;
  }
  for (const auto& [node, is_silent] : member_.missing(now))
    look(node);
}

/// Those that are silent, and whose name or rank somebody new has who waits here (E9).
void RendezvousNode::mind_replacements(TimePoint now) {
  if (!policy_.trusts_replacement || coordinator_) return;
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

/// Why the caller belongs to another job, whether or not this node leads.
std::optional<Refuse> RendezvousNode::objection(const Hello& hello) const {
  const auto refuse = [this](std::string why) {
    return Refuse{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = std::move(why),
        .instance = {},
        .is_stranger = true};
  };
  const Workload& there = hello.node.workload;
  const Workload& here = policy_.node.workload;
  if (hello.job != policy_.job) {
    if (!there.step.empty() && !here.step.empty() && there.step != here.step) {
      return refuse(fmt::format(
          "job '{}' of Slurm step {} runs there (on {}), not '{}' of step {}; give another "
          "endpoint, or, for one job of both steps, --nnodes for both together and the same "
          "--rdzv-id",
          policy_.job,
          here.step,
          policy_.node.host,
          hello.job,
          there.step));
    }
    return refuse(fmt::format(
        "job '{}' runs there (on {}), not '{}'; give another endpoint, or the same --rdzv-id",
        policy_.job,
        policy_.node.host,
        hello.job));
  }
  if (are_separate_steps(there, here)) {
    return refuse(fmt::format(
        "job '{}' of Slurm step {} runs there (on {}), and has all its nodes in that step, as step "
        "{} has; give another endpoint or --rdzv-id, or, for one job of both steps, --nnodes for "
        "both together",
        policy_.job,
        here.step,
        policy_.node.host,
        there.step));
  }
  if (is_same_job(there, here)) return std::nullopt;
  return refuse(fmt::format(
      "job '{}' of {} runs there, not {}; give a second job another --rdzv-endpoint (port), or all "
      "nodes of one job the same program and --role",
      policy_.job,
      spelled(policy_.node, hello.node),
      spelled(hello.node, policy_.node)));
}

/// What has to be the same on every node of a job, though another value is no other job.
std::optional<Refuse> RendezvousNode::objection_to_flags(const Hello& hello) const {
  const auto differs = [&](const std::string& there, const std::string& here) {
    return Refuse{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = fmt::format(
            "{} on {}, but {} on {}{}; give the same on every node",
            there,
            where(hello.node, policy_.node),
            here,
            coordinator_ ? "the leader " : "",
            where(policy_.node, hello.node))};
  };
  if (hello.nodes_min != policy_.nodes.min() || hello.nodes_max != policy_.nodes.max()) {
    return differs(
        fmt::format("--nnodes {}:{}", hello.nodes_min, hello.nodes_max),
        fmt::format("{}:{}", policy_.nodes.min(), policy_.nodes.max()));
  }
  if (hello.max_restarts != policy_.max_restarts) {
    return differs(
        fmt::format("--max-restarts {}", hello.max_restarts),
        fmt::format("{}", policy_.max_restarts));
  }
  if (hello.needs_progress != policy_.needs_progress) {
    const auto spelled_policy = [](bool needs_progress) {
      return fmt::format("--restart-policy {}", needs_progress ? "progress" : "always");
    };
    return differs(spelled_policy(hello.needs_progress), spelled_policy(policy_.needs_progress));
  }
  if (hello.lease != policy_.lease) {
    return differs(
        fmt::format("--lease {}", to_seconds(hello.lease)),
        fmt::format("{}", to_seconds(policy_.lease)));
  }
  if (hello.has_fence != policy_.has_fence) {
    const auto spelled_fence = [](bool has) { return has ? "--fence-dir" : "no --fence-dir"; };
    return differs(spelled_fence(hello.has_fence), spelled_fence(policy_.has_fence));
  }
  if (hello.trusts_replacement != policy_.trusts_replacement) {
    const auto spelled_trust = [](bool is_on) {
      return fmt::format("--trust-replacement={}", is_on ? "on" : "off");
    };
    return differs(
        spelled_trust(hello.trusts_replacement), spelled_trust(policy_.trusts_replacement));
  }
  return std::nullopt;
}

/// Yields whether it is the first time: the caller may try again for a while.
bool RendezvousNode::refuse(Link link, const Hello& hello, Refuse why) {
  const bool is_first = refused_.is_first(hello.node.incarnation);
  // Of a job that runs, people need not hear who mistook it for another one.
  const bool is_gathering = coordinator_ && !coordinator_->has_begun();
  if (is_first) {
    from_member_.emplace_back(effects::Note{
        .text = fmt::format(
            "{} of job '{}' called here and was refused: {}", hello.node.host, hello.job, why.why),
        .is_for_all = policy_.cannot_host.empty() && (!why.is_stranger || is_gathering)});
  }
  from_member_.emplace_back(effects::Send{.to = link, .message = std::move(why)});
  from_member_.emplace_back(effects::Close{.link = link});
  return is_first;
}

/// No word to anybody else: this port is known by its number alone, and others may have come to it
/// in search of a job of their own.
void RendezvousNode::report_that_it_cannot_host(Link link, const Hello& hello) {
  const bool is_asked =
      refuses_until_ && !policy_.meet.empty() && hello.asks_of_port == policy_.meet.front().port;
  if (!is_asked || hello.job != policy_.job || objection(hello)) {
    from_member_.emplace_back(effects::Close{.link = link});
    return;
  }
  Refuse no{
      .job = policy_.job,
      .exit_status = kExitTryAgain,
      .why = fmt::format("{}: {}", policy_.node.host, policy_.cannot_host)};
  if (refuse(link, hello, std::move(no))) ++told_that_it_cannot_host_;
}

void RendezvousNode::greet(Link link, const Hello& hello, TimePoint now) {
  const auto close = [&] { from_member_.emplace_back(effects::Close{.link = link}); };
  if (hello.node.incarnation == member_.node().incarnation) {  // our own call
    // Back by an address that no interface has: the endpoint leads here.
    if (policy_.hosts_if_called && may_bootstrap()) bootstrap(now);
    return close();
  }
  if (hello.asks_of_port || refuses_until_) return report_that_it_cannot_host(link, hello);
  if (auto no = objection(hello)) {
    refuse(link, hello, *std::move(no));
    return;
  }
  if (has_begun(hello.voter_state)) hears_of_instance(now);
  // A node that knows nobody yet has called the endpoint, and came here.
  const bool is_fresh = !hello.voter_state.instance.exists();
  if (policy_.hosts_if_called && is_fresh && may_bootstrap()) bootstrap(now);
  probe_namesakes(hello.node, now);
  if (coordinator_) return greet_by(*coordinator_, link, hello, now);
  if (leader()) return redirect(link);
  if (auto no = objection_to_flags(hello)) {
    refuse(link, hello, *std::move(no));
    return;
  }
  if (callers_.size() >= kCallersMax) return close();
  const bool knows_more = has_begun(hello.voter_state) && !member_.instance().exists();
  if (knows_more) member_.told_of_survivor(hello.node.listens, now, from_member_);
  await(link, hello, now);
}

void RendezvousNode::greet_by(Coordinator& leads, Link link, const Hello& hello, TimePoint now) {
  const Instance& theirs = hello.voter_state.instance;
  if (theirs.exists() && theirs != leads.instance()) {
    return greet_survivor(link, hello, now);
  }
  // Who heard of another instance that has begun waits for that: here no round was.
  const bool awaits_other = hello.awaits.exists() && hello.awaits != leads.instance();
  if (awaits_other && !leads.has_begun()) {
    leads.hold_no_more_for(hello.node);
    return redirect(link);
  }
  if (auto no = objection_to_flags(hello)) {
    refuse(link, hello, *std::move(no));
    return;
  }
  const Leadership ours{.term = leads.term(), .leader = member_.node().incarnation};
  // One that promised this very term to another candidate can join as well: that one cannot
  // win it any more.
  const bool is_older =
      hello.voter_state.term <= ours.term && hello.voter_state.obeyed.term < ours.term;
  const bool is_ours = hello.voter_state.obeyed == ours;
  if (is_older || is_ours) return leads.join(link, hello, now, from_coordinator_);
  // It promised itself to somebody newer: either we are past, and find that out by our lease, or
  // that somebody did not come to lead, and the caller can join as somebody else.
  redirect(link);
}

/// To the leader, if one is known.
void RendezvousNode::redirect(Link link) {
  if (const auto known = leader()) {
    from_member_.emplace_back(effects::Send{.to = link, .message = *known});
  }
  from_member_.emplace_back(effects::Close{.link = link});
}

void RendezvousNode::await(Link link, const Hello& hello, TimePoint now) {
  const auto [caller, is_new] = callers_.insert_or_assign(
      link, Caller{.hello = hello, .pre_vote = {}, .told = {}, .until = {}});
  member_.learn_of_voter_state(hello.voter_state);
  extend(caller->second, now);
}

/// Something passed between the two. Nobody waits for the next word much longer than for a lease
/// and a margin (member.cpp).
void RendezvousNode::extend(Caller& caller, TimePoint now) {
  caller.until = now + 2 * (policy_.lease + policy_.margin);
  callers_due_ = std::min(callers_due_, caller.until);
}

/// A machine that lost power hangs up on nobody. As long as it counted as one that waits here, this
/// node would wait for its promise and call nobody else.
void RendezvousNode::drop_silent_callers(TimePoint now) {
  if (now < callers_due_) return;
  callers_due_ = kNever;
  std::erase_if(callers_, [&](const auto& entry) {
    const auto& [link, caller] = entry;
    const bool is_silent = now >= caller.until;
    if (is_silent) from_member_.emplace_back(effects::Close{.link = link});
    if (!is_silent) callers_due_ = std::min(callers_due_, caller.until);
    return is_silent;
  });
}

void RendezvousNode::ask(Link link, Caller& caller, TimePoint now) {
  if (!caller.pre_vote || !candidate_) return;
  if (caller.pre_vote->voter_state.term >= candidate_->term()) {
    candidate_.reset();  // asks again, for a newer term
    return;
  }
  from_member_.emplace_back(
      effects::Send{.to = link, .message = VoteRequest{.term = candidate_->term()}});
  extend(caller, now);
}

/// Whether those who wait here could make this node the leader. Asking in vain would bind them to a
/// term that nobody leads.
bool RendezvousNode::would_win(const Voter& voter, bool has_fence, TimePoint now) const {
  Candidate::Setting setting = candidate_setting(now);
  setting.rule.has_fence = has_fence;
  Candidate trial(voter.node().incarnation, std::move(setting));
  constexpr std::int64_t kAny = 1;
  const auto as_vote = [](const PreVote& pre_vote) {
    return Vote{.term = kAny, .dead = pre_vote.dead, .voter_state = pre_vote.voter_state};
  };
  trial.ask_for(as_vote(voter.pre_vote(now)));
  for (const auto& [link, caller] : callers_) {
    if (!caller.pre_vote) continue;
    trial.voted(caller.hello.node.incarnation, as_vote(*caller.pre_vote));
  }
  return trial.election_result().has_value() || !trial.fences_wanted().empty();
}

Candidate::Setting RendezvousNode::candidate_setting(TimePoint now) const {
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

/// Asks the rules what would end the wait, by trying it on a copy of this node.
QuorumLossFacts RendezvousNode::quorum_loss_facts(TimePoint now) const {
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

/// For people, once nobody has come to lead for a while: once a second, since it counts all votes.
void RendezvousNode::mind_quorum_loss(TimePoint now) {
  constexpr auto kInterval = 1s;
  const bool is_due = !coordinator_ && member_.has_waited_long(now) && !member_.awaits_another();
  if (!is_due || now < described_at_ + kInterval) return;
  described_at_ = now;
  const bool is_new = is_newcomer();
  // A newcomer knows what it was told by one that waited, which may be gone by now.
  QuorumLoss loss = is_new ? member_.loss() : QuorumLoss();
  if (is_new && waits_for_instance() && now >= heard_of_instance_at_ + kUnheardWait) {
    loss.why = fmt::format("none of the nodes that took part is heard by {}", policy_.node.host);
    loss.ends = fmt::format(
        "one of them is heard again, or none was for {:.0f} s and the job starts from the "
        "beginning",
        to_seconds(policy_.search_timeout));
  } else if (!is_new && !would_win(now)) {
    loss = quorum_loss(quorum_loss_facts(now));
  } else if (!is_new && candidate_ && !candidate_->fences_wanted().empty()) {
    QuorumLossFacts facts = quorum_loss_facts(now);
    facts.waits_for_fence = true;
    loss = quorum_loss(facts);
  }
  if (loss != member_.loss()) member_.lost_quorum(loss, now, from_member_);
}

/// Those that would make this node the leader, each once.
void RendezvousNode::claim_fences(TimePoint now) {
  if (!candidate_) return;
  candidate_->update(candidate_setting(now));
  for (const RoundId& voters : candidate_->fences_wanted()) {
    const auto found = fences_.find(voters);
    const bool is_claimed = found != fences_.end() && found->second.instance == member_.instance();
    if (is_claimed) continue;
    fences_.insert_or_assign(voters, Fence{.instance = member_.instance(), .holder = {}});
    from_member_.emplace_back(effects::ClaimFence{
        .instance = member_.instance().bootstrap_leader,
        .round = voters,
        .node = member_.node().incarnation});
  }
}

void RendezvousNode::on(const FenceHeld& event, TimePoint /*now*/) {
  const auto fence = fences_.find(event.round);
  // One of an older instance may come late, when another one's of that number has been claimed.
  const bool is_asked =
      fence != fences_.end() && fence->second.instance.bootstrap_leader == event.instance;
  if (is_asked) fence->second.holder = event.holder;
}

/// What those hear who called here, as long as nobody leads.
void RendezvousNode::mind_callers(TimePoint now) {
  if (const auto known = leader()) {
    // They find the leader as this node did.
    for (const auto& [link, caller] : std::exchange(callers_, {})) {
      from_member_.emplace_back(effects::Send{.to = link, .message = *known});
      from_member_.emplace_back(effects::Close{.link = link});
    }
    return;
  }
  auto awaited = member_.awaited();
  // It cannot lead, and nobody who can has been heard: newcomers are told so.
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
    if (caller.told == awaited) continue;
    const bool is_other = !caller.told || caller.told->node != awaited->node;
    caller.told = awaited;
    if (is_other) extend(caller, now);  // else it only says more
    from_member_.emplace_back(effects::Send{.to = link, .message = *awaited});
  }
}

/// Those who wait here are enough: whomever this node calls or waits for, it is the one to lead.
/// Unless that one waits here as well, and has been told so.
void RendezvousNode::mind_turn(TimePoint now) {
  if (callers_.empty() || !member_.may_take_turn(now)) return;
  const auto awaited = member_.awaited();
  for (const auto& [link, caller] : callers_) {
    if (awaited && caller.pre_vote && awaited->node == caller.hello.node.incarnation) return;
  }
  if (would_win(now)) member_.take_turn(now, from_member_);
}

/// Gathers promises while it is this node's turn.
void RendezvousNode::mind_candidacy(TimePoint now) {
  if (coordinator_ || !member_.is_candidate(now)) return candidate_.reset();
  if (!candidate_) {
    if (!would_win(now)) return;
    std::int64_t newest = member_.term();
    for (const auto& [link, caller] : callers_) {
      if (caller.pre_vote) newest = std::max(newest, caller.pre_vote->voter_state.term);
    }
    candidate_.emplace(member_.node().incarnation, candidate_setting(now));
    // A node that is replaced may have led on alone, in terms that nobody here knows.
    const std::int64_t step = member_.voter().has_replaced() ? kReplacedStep : 1;
    candidate_->ask_for(member_.vote_for_itself(newest + step, now));
    for (auto& [link, caller] : callers_) {
      ask(link, caller, now);
    }
  }
  if (!candidate_) return;
  claim_fences(now);
  auto election_result = candidate_ ? candidate_->election_result() : std::nullopt;
  if (!election_result) return;
  election_result->hosts = split_hosts(member_.voter().hosts());
  lead(*election_result, now);
}

void RendezvousNode::on(const LifelineOpened& event, TimePoint now) {
  const bool is_ours = coordinator_ && coordinator_->term() == event.leadership.term &&
                       event.leadership.leader == member_.node().incarnation;
  if (is_ours) coordinator_->line_opened(event.node, now, from_coordinator_);
}

void RendezvousNode::on(const LifelineEnded& event, TimePoint now) {
  if (coordinator_) return coordinator_->line_ended(event.node, now, from_coordinator_);
  member_.line_ended(event.node, now, from_member_);
}

void RendezvousNode::on(const Goodbye& event, TimePoint now) {
  member_.goodbye(event.leadership, now, from_member_);
}

void RendezvousNode::on(const Workers& event, TimePoint now) {
  member_.workers(event.news, now, from_member_);
}

void RendezvousNode::on(const FailureRead& event, TimePoint /*now*/) {
  // The leader has it on its console already.
  if (!coordinator_ && policy_.has_own_console) member_.failure_read(event.text, from_member_);
}

void RendezvousNode::on(const Signalled& event, TimePoint now) {
  member_.signalled(event.signal, event.whole_job, now, from_member_);
}

void RendezvousNode::on(const Tick& /*event*/, TimePoint now) {
  if (refuses_until_) return;
  if (coordinator_) coordinator_->tick(now, from_coordinator_);
  if (coordinator_) set_own_lease(now);
  member_.tick(now, from_member_);
}

void RendezvousNode::set_own_lease(TimePoint now) {
  if (!coordinator_) return;
  const TimePoint until = coordinator_->leads_until();
  const TimePoint heard_at = now < until ? now : coordinator_->majority_heard_at();
  member_.set_own_lease(until, heard_at, now, from_member_);
}

/// Hands on what the parts have to say: to each other, or to the shell.
void RendezvousNode::route(TimePoint now, Effects& out) {
  while (!from_coordinator_.empty() || !from_member_.empty()) {
    const bool is_told = !from_coordinator_.empty();
    if (is_told && coordinator_) {
      set_own_lease(now);
    }
    for (Effect& effect : std::exchange(is_told ? from_coordinator_ : from_member_, {})) {
      auto const* const send = std::get_if<effects::Send>(&effect);
      if (send == nullptr || send->to != kSelfLink) {
        out.push_back(std::move(effect));
      } else if (is_told) {
        member_.received(kSelfLink, send->message, now, from_member_);
      } else if (coordinator_) {
        coordinator_->received(kSelfLink, send->message, now, from_coordinator_);
      }
    }
  }
}

void RendezvousNode::mind_leadership(TimePoint now, Effects& out) {
  if (!coordinator_) return;
  if (coordinator_->is_fenced()) {
    for (const auto& [incarnation, node] : coordinator_->nodes()) {
      if (node.link && *node.link != kSelfLink)
        out.emplace_back(effects::Close{.link = *node.link});
    }
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "term {}: no majority heard for {:.1f} s; this node stops leading",
            coordinator_->term(),
            to_seconds(now - coordinator_->majority_heard_at()))});
    auto past = coordinator_->past();
    coordinator_.reset();
    member_.depose(std::move(past), now, from_member_);
    return route(now, out);
  }
  set_own_lease(now);
  announce(now);
  route(now, out);
}

/// Who may not know that this node leads in place of another: those who come back to the endpoint,
/// and for a while those who may wait for a leader elsewhere.
std::vector<Endpoint> RendezvousNode::uninformed() const {
  std::vector<Endpoint> others;
  if (!coordinator_) return others;
  const auto add = [&](const Endpoint& to) {
    const bool is_own = to == member_.node().listens || to.port == 0;
    if (!is_own && std::ranges::find(others, to) == others.end()) others.push_back(to);
  };
  for (const Endpoint& endpoint : policy_.meet)
    add(endpoint);
  if (announce_at_ > announce_until_) return others;
  for (const Successor& successor : member_.voter().successors()) {
    if (!coordinator_->nodes().contains(successor.node)) add(successor.at);
  }
  return others;
}

/// Calls there to say who leads.
void RendezvousNode::notify(const Endpoint& to, TimePoint now) {
  // A call whose first packet is lost gets through no sooner than a second later.
  const auto is_called = [&](const auto& notice) {
    return notice.second.to == to &&
           now < notice.second.until - kNoticePatience + kAnnounceInterval;
  };
  if (std::ranges::any_of(notices_, is_called)) return;
  const Link link{kFirstNotice + 2 * ++notices_made_ - 1};
  notices_.emplace(link, Notice{.to = to, .until = now + kNoticePatience});
  from_member_.emplace_back(effects::Call{.link = link, .to = to});
}

void RendezvousNode::drop_stale_notices(TimePoint now) {
  std::erase_if(notices_, [&](const auto& entry) {
    const auto& [link, notice] = entry;
    if (now >= notice.until) from_member_.emplace_back(effects::Close{.link = link});
    return now >= notice.until;
  });
}

/// The endpoint comes last of those that a node without a leader calls, and each may take a while:
/// a node that lost its memory would begin the job anew there meanwhile. So it is called besides.
void RendezvousNode::mind_search(TimePoint now) {
  const bool is_due = !coordinator_ && member_.searches_for_leader(now);
  if (!is_due) return calls_endpoint_at_.reset();
  if (!calls_endpoint_at_) calls_endpoint_at_ = now + kAnnounceInterval;
  if (now < *calls_endpoint_at_) return;
  calls_endpoint_at_ = now + kAnnounceInterval;
  drop_stale_notices(now);
  for (const Endpoint& endpoint : policy_.meet) {
    if (endpoint != member_.node().listens && endpoint.port != 0) notify(endpoint, now);
  }
}

void RendezvousNode::announce(TimePoint now) {
  if (now < announce_at_) return;
  announce_at_ = now + kAnnounceInterval;
  drop_stale_notices(now);
  for (const Endpoint& to : uninformed())
    notify(to, now);
  // At the endpoint for good, elsewhere for a while.
  const bool is_at_endpoint =
      std::ranges::find(policy_.meet, member_.node().listens) != policy_.meet.end();
  const bool is_away = !policy_.meet.empty() && !is_at_endpoint;
  if (!is_away && announce_at_ > announce_until_) announce_at_ = kNever;
}

std::optional<TimePoint> RendezvousNode::next_deadline() const {
  if (member_.has_ended()) return std::nullopt;
  if (refuses_until_) return refuses_until_;
  TimePoint next = member_.next_deadline().value_or(kNever);
  if (coordinator_) {
    next = std::min({next, announce_at_, coordinator_->next_deadline().value_or(kNever)});
  } else {
    next = std::min({next, callers_due_, calls_endpoint_at_.value_or(kNever)});
    if (waits_for_instance()) {
      next = std::min(next, heard_of_instance_at_ + policy_.search_timeout);
    }
  }
  if (next == kNever) return std::nullopt;
  return next;
}

}  // namespace ddprun
