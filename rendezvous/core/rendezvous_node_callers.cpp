// The callers of RendezvousNode: whether one joins, waits here, is sent elsewhere or refused, and
// which of two instances of the job gives way.

#include "base/exit_status.hpp"
#include "rendezvous/core/rendezvous_node.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace ddprun {
namespace {

/// Of two instances of one job. The clocks of two machines may differ: this decides only which
/// instance ends.
bool is_later(const Instance& a, const Instance& b) {
  return a.bootstrapped_ms != b.bootstrapped_ms ? a.bootstrapped_ms > b.bootstrapped_ms
                                                : a.bootstrap_leader > b.bootstrap_leader;
}

}  // namespace

/// A leader calls to report itself, mostly at the endpoint, where this node may have bootstrapped
/// the job a second time.
void RendezvousNode::on_redirect(Link link, const Redirect& redirect, TimePoint now) {
  from_member_.emplace_back(effects::Close{.link = link});
  if (redirect.job != policy_.job) return;  // this was its endpoint before
  // A second job neither ends the first nor draws its nodes. If this node's job has not begun, it
  // calls the first one, which refuses it.
  const bool is_stranger = !is_same_job(redirect, policy_.node.workload);
  const bool is_waiting = coordinator_ && !coordinator_->has_begun();
  if (is_stranger && !(is_waiting && redirect.has_begun)) return;
  if (is_stranger && !stranger_since_) stranger_since_ = now;
  // The node that it looks for may have had our address before.
  if (is_stranger && policy_.endpoint_has_name && now < *stranger_since_ + kOldAddressWait) return;
  const auto known = leader();
  const bool is_other = known && known->instance != redirect.instance;
  if (is_other && redirect.has_begun) {
    if (coordinator_ && !coordinator_->has_begun()) {
      give_way(now);
    } else if (coordinator_ && is_later(known->instance, redirect.instance)) {
      return coordinator_->end_as_double(
          doubled_by(redirect.leader.to_string()), from_coordinator_);
    } else {
      // It, or the leader that we name to it, finds that it is the later one.
      return notices_.call(redirect.leader, now, from_member_);
    }
  }
  if (redirect.has_begun && !is_stranger) hears_of_instance(now);
  member_.note_leader(redirect, now, from_member_);
}

/// Only a node that bootstrapped the job again has to know.
void RendezvousNode::on_survivor(Link link, const Survivor& survivor, TimePoint now) {
  from_member_.emplace_back(effects::Close{.link = link});
  const bool is_ours = survivor.job == policy_.job && is_same_job(survivor, policy_.node.workload);
  const bool is_bootstrapping =
      coordinator_ && !coordinator_->has_begun() && coordinator_->instance() != survivor.instance;
  if (!is_ours || !is_bootstrapping) return;
  hears_of_instance(now);
  give_way(now);
  member_.note_survivor(survivor.at, now, from_member_);
}

/// The caller belongs to another instance of this job.
void RendezvousNode::greet_survivor(Link link, const Hello& hello, TimePoint now) {
  const auto close = [&] { from_member_.emplace_back(effects::Close{.link = link}); };
  if (!coordinator_) return close();
  const bool has_begun_there = has_begun(hello.voter_state);
  const bool has_begun_here = coordinator_->has_begun();
  const Instance& theirs = hello.voter_state.instance;
  if (has_begun_there && !has_begun_here) {
    give_way(now);
    member_.note_survivor(hello.node.listens, now, from_member_);
    return election_.await(link, hello, now);
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
      "later, ends; start ddprun here again to join it",
      policy_.job,
      where);
}

/// If the caller has come back to the machine of a missing node, the kernel there knows whether
/// anything of that node is left.
void RendezvousNode::probe_namesakes(const NodeInfo& caller, TimePoint now) {
  if (!policy_.trusts_reset) return;
  const auto probe = [&](const NodeInfo& node) {
    const bool is_other = node.incarnation != caller.incarnation && node.host == caller.host;
    if (!is_other || !is_same_machine(node.machine, caller.machine)) return;
    // A leader may be known by the name under which it was called.
    const bool is_numeric =
        node.listens.host.find_first_not_of("0123456789.") == std::string::npos ||
        node.listens.host.find(':') != std::string::npos;
    if (is_numeric && node.listens.host != caller.listens.host) return;
    from_member_.emplace_back(effects::ProbeLines{.node = node.incarnation});
  };
  if (coordinator_) {
    for (const auto& [incarnation, node] : coordinator_->nodes())
      probe(node.info);
    for (const auto& [incarnation, node] : coordinator_->lost_nodes().silent())
      probe(node.info);
    return;
  }
  for (const auto& [node, is_silent] : member_.missing(now))
    probe(node);
}

void RendezvousNode::greet(Link link, const Hello& hello, TimePoint now) {
  const auto close = [&] { from_member_.emplace_back(effects::Close{.link = link}); };
  if (hello.node.incarnation == member_.node().incarnation) {  // our own call
    // Back by an address that no interface has: the endpoint leads here.
    if (policy_.hosts_if_called && may_bootstrap()) bootstrap(now);
    return close();
  }
  if (hello.checks_port || admission_.refuses_all()) {
    return admission_.report_that_it_cannot_host(link, hello, from_member_);
  }
  if (auto no = admission_.objection(hello)) return refuse(link, hello, *std::move(no));
  if (has_begun(hello.voter_state)) hears_of_instance(now);
  // A node that knows no other yet has called the endpoint, and came here.
  const bool is_fresh = !hello.voter_state.instance.exists();
  if (policy_.hosts_if_called && is_fresh && may_bootstrap()) bootstrap(now);
  probe_namesakes(hello.node, now);
  if (coordinator_) return greet_by(*coordinator_, link, hello, now);
  if (leader()) return redirect(link);
  if (auto no = admission_.objection_to_flags(hello, role())) {
    return refuse(link, hello, *std::move(no));
  }
  if (!election_.has_room()) return close();
  const bool knows_more = has_begun(hello.voter_state) && !member_.instance().exists();
  if (knows_more) member_.note_survivor(hello.node.listens, now, from_member_);
  election_.await(link, hello, now);
}

Admission::Role RendezvousNode::role() const {
  if (!coordinator_) return Admission::Role::kFollows;
  return coordinator_->has_begun() ? Admission::Role::kLeads : Admission::Role::kGathers;
}

void RendezvousNode::refuse(Link link, const Hello& hello, Refuse why) {
  admission_.refuse(link, hello, std::move(why), role(), from_member_);
}

void RendezvousNode::greet_by(Coordinator& leads, Link link, const Hello& hello, TimePoint now) {
  const Instance& theirs = hello.voter_state.instance;
  if (theirs.exists() && theirs != leads.instance()) {
    return greet_survivor(link, hello, now);
  }
  // A node that heard of another instance, which has begun, waits for that. Here no round was.
  const bool awaits_other = hello.awaits.exists() && hello.awaits != leads.instance();
  if (awaits_other && !leads.has_begun()) {
    leads.hold_no_more_for(hello.node);
    return redirect(link);
  }
  if (auto no = admission_.objection_to_flags(hello, role())) {
    return refuse(link, hello, *std::move(no));
  }
  const Leadership ours{.term = leads.term(), .leader = member_.node().incarnation};
  // A node that voted for another candidate in this very term can join as well: that candidate
  // cannot win the term any more.
  const bool is_older =
      hello.voter_state.term <= ours.term && hello.voter_state.obeyed.term < ours.term;
  const bool is_ours = hello.voter_state.obeyed == ours;
  if (is_older || is_ours) return leads.join(link, hello, now, from_coordinator_);
  // It voted in a newer term. Either this node is deposed, and finds that out by its lease; or the
  // candidate did not come to lead, and the caller can join under a new incarnation.
  redirect(link);
}

/// To the leader, if one is known.
void RendezvousNode::redirect(Link link) {
  if (const auto known = leader()) {
    from_member_.emplace_back(effects::Send{.to = link, .message = *known});
  }
  from_member_.emplace_back(effects::Close{.link = link});
}

}  // namespace ddprun
