#include "rendezvous/core/rank_claims.hpp"

#include "base/exit_status.hpp"
#include "rendezvous/core/gathering_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun {

const Roster::Node* RankClaims::holder_of_rank(const NodeInfo& asking) const {
  if (!asking.node_rank || !context_.policy.ranks_are_places) return nullptr;
  const auto found = std::ranges::find_if(roster_.nodes(), [&](const auto& entry) {
    const auto& [incarnation, node] = entry;
    return incarnation != asking.incarnation && node.info.node_rank == asking.node_rank;
  });
  return found == roster_.nodes().end() ? nullptr : &found->second;
}

void RankClaims::add(Link link, const Hello& hello, TimePoint now) {
  claims_.insert_or_assign(link, Claim{.hello = hello, .since = now});
}

std::string RankClaims::refuse(const Roster::Node& holder, TimePoint replied_at, Effects& out) {
  std::string refused;
  if (!holder.info.node_rank) return refused;
  std::erase_if(claims_, [&](const auto& entry) {
    const auto& [link, claim] = entry;
    const NodeInfo& caller = claim.hello.node;
    if (caller.node_rank != holder.info.node_rank || replied_at <= claim.since) return false;
    Refuse no{
        .job = context_.policy.job,
        .exit_status = kExitUsage,
        .why = fmt::format(
            "--node-rank {} is taken by {}; give each node a rank of its own",
            *holder.info.node_rank,
            holder.info.host),
        .instance = context_.instance};
    out.emplace_back(effects::Note{.text = fmt::format("{} was refused: {}", caller.host, no.why)});
    out.emplace_back(effects::Send{.to = link, .message = std::move(no)});
    out.emplace_back(effects::Close{.link = link});
    refused += fmt::format(" and {}", named(caller));
    return true;
  });
  return refused;
}

std::optional<std::pair<Link, Hello>> RankClaims::take_free() {
  const auto free = std::ranges::find_if(claims_, [this](const auto& entry) {
    return holder_of_rank(entry.second.hello.node) == nullptr;
  });
  if (free == claims_.end()) return std::nullopt;
  const auto taken = claims_.extract(free);
  return std::pair(taken.key(), std::move(taken.mapped().hello));
}

}  // namespace ddprun
