#include "agent/core/listen_addresses.hpp"

#include "agent/core/interface_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun {
namespace {

void add(std::vector<std::string>& hosts, const std::string& host) {
  if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
}

/// What was asked for, if anything was.
std::optional<ListenAddresses> as_bound(const RendezvousPlan& rendezvous) {
  if (rendezvous.bind.to == BindPlan::To::kAll) return ListenAddresses();
  if (rendezvous.bind.to == BindPlan::To::kAgreed) return std::nullopt;
  ListenAddresses given{.hosts = {rendezvous.bind.address}, .why_all = {}, .missed = {}};
  add(given.hosts, rendezvous.local_address);
  return given;
}

}  // namespace

ListenAddresses at_endpoint(
    const RendezvousPlan& rendezvous, const std::vector<std::string>& ends) {
  if (auto bound = as_bound(rendezvous)) {
    const auto listens = [&](const std::string& end) {
      return is_loopback(end) || std::ranges::find(bound->hosts, end) != bound->hosts.end();
    };
    if (!bound->hosts.empty() && std::ranges::none_of(ends, listens)) bound->missed = ends;
    return *std::move(bound);
  }
  const std::string host = rendezvous.endpoint ? rendezvous.endpoint->host : "";
  const bool is_one_machine = host == "localhost" || is_loopback(host);
  if (!is_one_machine && std::ranges::all_of(ends, is_loopback)) {
    // As on Debian, where a machine's own name is 127.0.1.1 for itself, and another for the others.
    return {
        .hosts = {},
        .why_all = ends.empty()
                       ? fmt::format("{} cannot be resolved yet, or there is no route to it", host)
                       : fmt::format("on this machine {} is {}", host, fmt::join(ends, ", ")),
        .missed = {}};
  }
  ListenAddresses agreed;
  for (const std::string& end : ends) {
    add(agreed.hosts, end);
  }
  add(agreed.hosts, rendezvous.local_address);
  return agreed;
}

ListenAddresses before_any_call(const RendezvousPlan& rendezvous) {
  if (auto bound = as_bound(rendezvous)) return *std::move(bound);
  if (rendezvous.local_address.empty())
    return {.hosts = {"127.0.0.1"}, .why_all = {}, .missed = {}};
  return {.hosts = {rendezvous.local_address}, .why_all = {}, .missed = {}};
}

bool follows_calls(const RendezvousPlan& rendezvous) {
  return rendezvous.bind.to == BindPlan::To::kAgreed;
}

}  // namespace ddprun
