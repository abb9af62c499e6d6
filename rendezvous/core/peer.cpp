#include "rendezvous/core/peer.hpp"

#include "base/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnnounceInterval = 500ms;
constexpr std::size_t kCallersMax = 16'384;
constexpr std::uint64_t kFirstNotice = 1ULL << 62U;  // apart from the links of Member's calls

}  // namespace

Peer::Peer(RendezvousPolicy policy) : policy_(std::move(policy)), member_(policy_) {}

void Peer::apply(const Event& event, TimePoint now, Effects& out) {
  std::visit([&](const auto& what) { on(what, now); }, event);
  route(now, out);
  if (!coordinator_) {
    mind_turn(now);
    mind_callers();
  }
  mind_candidacy(now);
  route(now, out);
  mind_leadership(now, out);
}

void Peer::on(const Begin& /*event*/, TimePoint now) {
  founds_ = policy_.founds;
  if (!founds_) return member_.begin(now, from_member_);
  Mandate mandate;
  mandate.generation = 1;
  mandate.electorates.push_back({.round = {}, .size = 1, .members = {member_.node().incarnation}});
  lead(mandate, now);
}

void Peer::lead(const Mandate& mandate, TimePoint now) {
  candidate_.reset();
  coordinator_.emplace(policy_, member_.node(), mandate, now);
  coordinator_->join(kSelfLink, member_.hello(), now, from_coordinator_);
  member_.lead(mandate.generation, now, from_member_);
  announce_at_ = mandate.generation > 1 ? now + kAnnounceInterval : kNever;
  announce_until_ = now + policy_.seek_timeout;
  const auto waiting = std::exchange(callers_, {});
  for (const auto& [link, caller] : waiting) {
    coordinator_->join(link, caller.hello, now, from_coordinator_);
  }
}

/// This node founded what has been founded before, and nobody has joined it yet.
void Peer::give_way(TimePoint now) {
  founds_ = false;
  coordinator_.reset();
  member_.abdicate(now, from_member_);
}

void Peer::on(const Connected& event, TimePoint now) {
  if (notices_.erase(event.link) != 0) {
    const auto leader = member_.leader();
    if (leader) from_member_.emplace_back(effects::Send{.to = event.link, .message = *leader});
    from_member_.emplace_back(effects::Close{.link = event.link});
    return;
  }
  member_.connected(event.link, now, from_member_);
}

void Peer::on(const Closed& event, TimePoint now) {
  notices_.erase(event.link);
  callers_.erase(event.link);
  if (coordinator_) coordinator_->lost(event.link, now, from_coordinator_);
  member_.closed(event.link, event.why, now, from_member_);
}

void Peer::on(const Received& event, TimePoint now) {
  const bool from_our_call = static_cast<std::uint64_t>(event.link) % 2 == 1;
  if (from_our_call) return member_.received(event.link, event.message, now, from_member_);
  if (const auto* hello = std::get_if<Hello>(&event.message)) return greet(event.link, *hello, now);
  if (const auto* redirect = std::get_if<Redirect>(&event.message)) {
    // A survivor calls on the endpoint, where this node was about to found what is there already.
    from_member_.emplace_back(effects::Close{.link = event.link});
    if (redirect->job != policy_.job) return;  // whose endpoint this was before
    const bool is_newer = coordinator_ && redirect->generation > coordinator_->generation();
    if (is_newer && founds_ && !coordinator_->round()) give_way(now);
    member_.told_of_leader(*redirect, now, from_member_);
    return;
  }
  if (const auto* promise = std::get_if<Promise>(&event.message)) {
    const auto caller = callers_.find(event.link);
    if (candidate_ && caller != callers_.end()) {
      candidate_->promised(caller->second.hello.node.incarnation, *promise);
    }
    return;
  }
  if (const auto* eligible = std::get_if<Eligible>(&event.message)) {
    const auto caller = callers_.find(event.link);
    if (caller == callers_.end()) return;
    caller->second.eligible = *eligible;
    ask(caller->first, caller->second);
    return;
  }
  if (coordinator_) coordinator_->received(event.link, event.message, now, from_coordinator_);
}

void Peer::greet(Link link, const Hello& hello, TimePoint now) {
  const auto send = [&](Message message) {
    from_member_.emplace_back(effects::Send{.to = link, .message = std::move(message)});
  };
  const auto close = [&] { from_member_.emplace_back(effects::Close{.link = link}); };
  if (hello.node.incarnation == member_.node().incarnation) return close();  // our own call
  if (hello.job != policy_.job) {
    from_member_.emplace_back(effects::Note{
        .text = fmt::format(
            "{} of job '{}' called here, where job '{}' runs; it was refused",
            hello.node.host,
            hello.job,
            policy_.job)});
    send(Refuse{
        .job = policy_.job,
        .exit_status = kExitUsage,
        .why = fmt::format(
            "job '{}' runs there (on {}), not '{}'; give another endpoint, or the same --rdzv-id",
            policy_.job,
            policy_.node.host,
            hello.job)});
    return close();
  }
  if (coordinator_) {
    const bool is_older = hello.standing.generation < coordinator_->generation() ||
                          hello.standing.obeyed == coordinator_->generation();
    if (is_older) return coordinator_->join(link, hello, now, from_coordinator_);
    // It promised itself to somebody newer: either we are past, and find that out by our lease, or
    // that somebody did not come to lead, and the caller can join as somebody else.
    const auto leader = member_.leader();
    if (leader) send(*leader);
    if (founds_ && !coordinator_->round()) give_way(now);
    return close();
  }
  if (const auto leader = member_.leader()) {
    send(*leader);
    return close();
  }
  if (callers_.size() >= kCallersMax) return close();
  callers_.insert_or_assign(link, Caller{.hello = hello, .eligible = {}, .told = {}});
}

void Peer::ask(Link link, const Caller& caller) {
  if (!caller.eligible || !candidate_) return;
  if (caller.eligible->standing.generation >= candidate_->generation()) {
    candidate_.reset();  // asks again, for a newer generation
    return;
  }
  from_member_.emplace_back(
      effects::Send{.to = link, .message = Ask{.generation = candidate_->generation()}});
}

/// Whether those who wait here could make this node the leader. Asking in vain would bind them to a
/// generation that nobody leads.
bool Peer::would_win() const {
  Candidate trial(
      member_.node().incarnation,
      {.lease = policy_.lease, .margin = policy_.margin, .regroup = {}});
  constexpr std::int64_t kAny = 1;
  const auto as_promise = [](const Eligible& eligible) {
    return Promise{.generation = kAny, .dead = eligible.dead, .standing = eligible.standing};
  };
  trial.ask_for(as_promise(member_.eligible()));
  for (const auto& [link, caller] : callers_) {
    if (!caller.eligible) continue;
    trial.promised(caller.hello.node.incarnation, as_promise(*caller.eligible));
  }
  return trial.mandate().has_value();
}

/// What those hear who called here, as long as nobody leads.
void Peer::mind_callers() {
  if (const auto leader = member_.leader()) {
    // They find the leader as this node did.
    for (const auto& [link, caller] : std::exchange(callers_, {})) {
      from_member_.emplace_back(effects::Send{.to = link, .message = *leader});
      from_member_.emplace_back(effects::Close{.link = link});
    }
    return;
  }
  const auto awaited = member_.awaited();
  if (!awaited) return;
  for (auto& [link, caller] : callers_) {
    if (caller.told == awaited) continue;
    caller.told = awaited;
    from_member_.emplace_back(effects::Send{.to = link, .message = *awaited});
  }
}

/// Those who wait here are enough: whomever this node calls or waits for, it is the one to lead.
/// Unless that one waits here as well, and has been told so.
void Peer::mind_turn(TimePoint now) {
  if (callers_.empty() || !member_.may_take_turn(now)) return;
  const auto awaited = member_.awaited();
  for (const auto& [link, caller] : callers_) {
    if (awaited && caller.eligible && awaited->node == caller.hello.node.incarnation) return;
  }
  if (would_win()) member_.take_turn(now, from_member_);
}

/// Gathers promises while it is this node's turn.
void Peer::mind_candidacy(TimePoint now) {
  if (coordinator_ || !member_.is_candidate(now)) return candidate_.reset();
  if (!candidate_) {
    if (!would_win()) return;
    std::int64_t newest = member_.generation();
    for (const auto& [link, caller] : callers_) {
      if (caller.eligible) newest = std::max(newest, caller.eligible->standing.generation);
    }
    candidate_.emplace(
        member_.node().incarnation,
        Candidate::Setting{
            .lease = policy_.lease,
            .margin = policy_.margin,
            .regroup = member_.regroup(now),
            .led = member_.led()});
    candidate_->ask_for(member_.promise_to_itself(newest + 1, now));
    for (const auto& [link, caller] : callers_) {
      ask(link, caller);
    }
  }
  if (!candidate_) return;
  if (const auto mandate = candidate_->mandate()) lead(*mandate, now);
}

void Peer::on(const LineOpened& event, TimePoint now) {
  const bool is_ours = coordinator_ && coordinator_->generation() == event.generation;
  if (is_ours) coordinator_->line_opened(event.node, now, from_coordinator_);
}

void Peer::on(const LineEnded& event, TimePoint now) {
  if (coordinator_) coordinator_->line_ended(event.node, now, from_coordinator_);
}

void Peer::on(const Farewell& event, TimePoint now) {
  member_.farewell(event.generation, now, from_member_);
}

void Peer::on(const Workers& event, TimePoint now) {
  member_.workers(event.news, now, from_member_);
}

void Peer::on(const Signalled& event, TimePoint now) {
  member_.signalled(event.signal, event.whole_job, now, from_member_);
}

void Peer::on(const Tick& /*event*/, TimePoint now) {
  if (coordinator_) coordinator_->tick(now, from_coordinator_);
  member_.tick(now, from_member_);
}

/// Hands on what the parts have to say: to each other, or to the shell.
void Peer::route(TimePoint now, Effects& out) {
  while (!from_coordinator_.empty() || !from_member_.empty()) {
    const bool is_told = !from_coordinator_.empty();
    if (is_told && coordinator_) {
      member_.set_own_lease(coordinator_->leads_until(), now, from_member_);
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

void Peer::mind_leadership(TimePoint now, Effects& out) {
  if (!coordinator_) return;
  if (coordinator_->is_fenced()) {
    for (const auto& [incarnation, node] : coordinator_->nodes()) {
      if (node.link && *node.link != kSelfLink)
        out.emplace_back(effects::Close{.link = *node.link});
    }
    out.emplace_back(effects::Note{
        .text = fmt::format(
            "generation {}: no majority has answered for a lease; this node does not lead any more",
            coordinator_->generation())});
    coordinator_.reset();
    member_.depose(now, from_member_);
    return route(now, out);
  }
  member_.set_own_lease(coordinator_->leads_until(), now, from_member_);
  announce(now);
  route(now, out);
}

/// Who may not know that this node leads in place of another: those who come back to the endpoint,
/// and for a while those who may wait for a leader elsewhere.
std::vector<Endpoint> Peer::uninformed() const {
  std::vector<Endpoint> others;
  if (!coordinator_) return others;
  const auto add = [&](const Endpoint& to) {
    const bool is_own = to == member_.node().listens || to.port == 0;
    if (!is_own && std::ranges::find(others, to) == others.end()) others.push_back(to);
  };
  for (const Endpoint& endpoint : policy_.meet)
    add(endpoint);
  if (announce_at_ > announce_until_) return others;
  for (const Successor& successor : member_.successors()) {
    if (!coordinator_->nodes().contains(successor.node)) add(successor.at);
  }
  return others;
}

void Peer::announce(TimePoint now) {
  if (now < announce_at_) return;
  announce_at_ = now + kAnnounceInterval;
  for (const Endpoint& to : uninformed()) {
    const auto is_called = [&to](const auto& notice) { return notice.second == to; };
    if (std::ranges::any_of(notices_, is_called)) continue;
    const Link link{kFirstNotice + 2 * ++notices_made_ - 1};
    notices_.emplace(link, to);
    from_member_.emplace_back(effects::Call{.link = link, .to = to});
  }
  // At the endpoint for good, elsewhere for a while.
  const bool is_at_endpoint =
      std::ranges::find(policy_.meet, member_.node().listens) != policy_.meet.end();
  const bool is_away = !policy_.meet.empty() && !is_at_endpoint;
  if (!is_away && announce_at_ > announce_until_) announce_at_ = kNever;
}

std::optional<TimePoint> Peer::next_deadline() const {
  if (member_.has_ended()) return std::nullopt;
  TimePoint next = member_.next_deadline().value_or(kNever);
  if (coordinator_) {
    next = std::min({next, announce_at_, coordinator_->next_deadline().value_or(kNever)});
  }
  if (next == kNever) return std::nullopt;
  return next;
}

}  // namespace ddprun
