#include "rendezvous/core/quorum_loss.hpp"

#include "base/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

namespace ddprun {
namespace {

constexpr std::size_t kHostsShown = 8;

}  // namespace

std::string spelled_hosts(std::vector<std::string> hosts) {
  if (hosts.size() > kHostsShown) {
    const std::size_t more = hosts.size() - kHostsShown + 1;
    hosts.resize(kHostsShown - 1);
    hosts.push_back(fmt::format("{} more", more));
  }
  if (hosts.empty()) return "";
  const std::string last = hosts.back();
  hosts.pop_back();
  return hosts.empty() ? last : fmt::format("{} and {}", fmt::join(hosts, ", "), last);
}

std::vector<std::string> hosts_without(
    std::vector<std::string> all, const std::vector<std::string>& others) {
  for (const std::string& other : others) {
    const auto found = std::ranges::find(all, other);
    if (found != all.end()) all.erase(found);
  }
  return all;
}

std::vector<std::string> split_hosts(const std::string& hosts) {
  if (hosts.empty()) return {};
  const auto names = split(hosts, ',');
  return {names.begin(), names.end()};
}

QuorumLoss quorum_loss(const QuorumLossFacts& facts) {
  const auto absent = hosts_without(facts.round, facts.here);
  auto lost = hosts_without(absent, facts.ended);
  if (lost.empty()) lost = absent;         // proved too late to continue without them
  if (lost.empty()) lost = facts.missing;  // spares, whose votes count as well
  if (lost.empty()) return {};
  const bool is_one = lost.size() == 1;
  const auto silent = hosts_without(facts.missing, facts.ended);
  const std::string there = spelled_hosts(silent.empty() ? facts.missing : silent);
  QuorumLoss loss;
  const std::string of_round =  // of which this node may know no more than that it was offered
      facts.round.empty() ? "" : fmt::format(" of the last round's {} nodes", facts.round.size());
  loss.why = fmt::format(
      "{}{} {} missing and may still run{}, so {} cannot continue without {}{}",
      spelled_hosts(lost),
      of_round,
      is_one ? "is" : "are",
      facts.back.empty()
          ? ""
          : fmt::format(
                " (what was started on {} since does not know of it)", spelled_hosts(facts.back)),
      spelled_hosts(facts.here),
      is_one ? "it" : "them",
      facts.waits_for_fence ? " before the fence is claimed in --fence-dir, which fails so far"
                            : "");
  loss.ends = is_one ? "it is heard again" : "enough of them are heard again";
  if (facts.waits_for_fence) {
    loss.ends += ", or the fence can be claimed";
  } else if (facts.ends_by_replacement && facts.trusts_replacement) {
    loss.ends += fmt::format(", or ddprun starts in place of {}", there);
  } else if (facts.ends_by_reset) {
    loss.ends += fmt::format(
        ", or ddprun starts again on the machine of {}, under the same host name and address and "
        "with nothing of the job left there",
        there);
  } else if (facts.ends_by_replacement || facts.ends_by_fence) {
    loss.ends += fmt::format(
        " (starting ddprun there again does not end it: {} {} started without {}{}{})",
        spelled_hosts(facts.here),
        facts.here.size() == 1 ? "was" : "were",
        facts.ends_by_replacement ? "--trust-replacement=on" : "",
        facts.ends_by_replacement && facts.ends_by_fence ? " and " : "",
        facts.ends_by_fence ? "--fence-dir" : "");
  }
  return loss;
}

}  // namespace ddprun
