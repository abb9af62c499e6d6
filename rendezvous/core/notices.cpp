#include "rendezvous/core/notices.hpp"

#include <algorithm>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// The name may lead to another address by now. A first packet that is lost is repeated after 1 s.
constexpr auto kPatience = 1s;
constexpr std::uint64_t kFirst = 1ULL << 62U;  // apart from the links of Member's calls

}  // namespace

void Notices::lead(std::int64_t term, TimePoint now) {
  announce_at_ = term > 1 ? now + kAnnounceInterval : kNever;
  announce_until_ = now + policy_.search_timeout;
}

void Notices::call(const Endpoint& to, TimePoint now, Effects& out) {
  // A call whose first packet is lost gets through no sooner than a second later.
  const auto is_called = [&](const auto& call) {
    return call.second.to == to && now < call.second.until - kPatience + kAnnounceInterval;
  };
  if (std::ranges::any_of(calls_, is_called)) return;
  const Link link{kFirst + 2 * ++made_ - 1};
  calls_.emplace(link, Call{.to = to, .until = now + kPatience});
  out.emplace_back(effects::Call{.link = link, .to = to});
}

bool Notices::connected(
    Link link, const std::optional<Redirect>& leader, TimePoint now, Effects& out) {
  if (calls_.erase(link) == 0) return false;
  if (leader) {
    out.emplace_back(effects::Send{.to = link, .message = *leader});
  } else if (member_.searches_for_leader(now)) {
    out.emplace_back(effects::Send{
        .to = link,
        .message = Survivor{
            .job = policy_.job,
            .program = policy_.node.workload.program,
            .role = policy_.node.workload.role,
            .instance = member_.instance(),
            .at = member_.node().listens}});
  }
  out.emplace_back(effects::Close{.link = link});
  return true;
}

/// The nodes that come back to the endpoint, and for a while those that may wait for a leader
/// elsewhere.
std::vector<Endpoint> Notices::uninformed(const Coordinator& leads) const {
  std::vector<Endpoint> others;
  const auto add = [&](const Endpoint& to) {
    const bool is_own = to == member_.node().listens || to.port == 0;
    if (!is_own && std::ranges::find(others, to) == others.end()) others.push_back(to);
  };
  for (const Endpoint& endpoint : policy_.endpoints)
    add(endpoint);
  if (announce_at_ > announce_until_) return others;
  for (const Successor& successor : member_.voter().successors()) {
    if (!leads.nodes().contains(successor.node)) add(successor.at);
  }
  return others;
}

void Notices::announce(const Coordinator& leads, TimePoint now, Effects& out) {
  if (now < announce_at_) return;
  announce_at_ = now + kAnnounceInterval;
  drop_stale(now, out);
  for (const Endpoint& to : uninformed(leads))
    call(to, now, out);
  const bool is_at_endpoint =
      std::ranges::find(policy_.endpoints, member_.node().listens) != policy_.endpoints.end();
  const bool is_away = !policy_.endpoints.empty() && !is_at_endpoint;
  if (!is_away && announce_at_ > announce_until_) announce_at_ = kNever;
}

void Notices::mind_search(bool is_searching, TimePoint now, Effects& out) {
  if (!is_searching) return endpoint_at_.reset();
  if (!endpoint_at_) endpoint_at_ = now + kAnnounceInterval;
  if (now < *endpoint_at_) return;
  endpoint_at_ = now + kAnnounceInterval;
  drop_stale(now, out);
  for (const Endpoint& endpoint : policy_.endpoints) {
    if (endpoint != member_.node().listens && endpoint.port != 0) call(endpoint, now, out);
  }
}

void Notices::drop_stale(TimePoint now, Effects& out) {
  std::erase_if(calls_, [&](const auto& entry) {
    const auto& [link, call] = entry;
    if (now >= call.until) out.emplace_back(effects::Close{.link = link});
    return now >= call.until;
  });
}

}  // namespace ddprun
