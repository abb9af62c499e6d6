#include "rendezvous/status_client.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "rendezvous/auth.hpp"
#include "rendezvous/core/status.hpp"
#include "rendezvous/http_get.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kStatusPath = "/status";

/// HOST:PORT of "http://HOST:PORT/status".
Result<Endpoint> leader_at(std::string_view location) {
  constexpr std::string_view kScheme = "http://";
  constexpr std::size_t kShownBytesMax = 200;
  const auto refused = [location] {
    return format_error(
        Errc::kProtocol, "it names '{}' as the leader", location.substr(0, kShownBytesMax));
  };
  if (!location.starts_with(kScheme) || !location.ends_with(kStatusPath)) return refused();
  location.remove_prefix(kScheme.size());
  location.remove_suffix(kStatusPath.size());
  auto leader = Endpoint::parse(location, 0);
  if (!leader || leader->port == 0) return refused();
  return leader;
}

Error no_status(const HttpResponse& response) {
  constexpr int kNoLeader = 503;  // of an agent, which explains what it waits for
  constexpr std::size_t kReasonBytesMax = 1'000;
  const std::string_view said = trim(response.body);
  return format_error(
      Errc::kPeerLost,
      "it answers {}{}{}{}",
      response.status,
      said.empty() ? "" : ": ",
      said.substr(0, std::min(said.find('\n'), kReasonBytesMax)),
      response.status == kNoLeader ? "" : "; give the address and port of a node of the job");
}

/// What everybody may see instead, as a clause.
std::string public_state(const HttpResponse& response) {
  const auto status = parse_public_status(response.body);
  return status ? fmt::format("the job {}, and shows only its user more", state_text(status->state))
                : "the job shows nothing";
}

/// GET /status of `endpoint`; if it asks for a proof, a second time with one.
Result<HttpResponse> get_status(
    const Endpoint& endpoint, TimePoint deadline, const FindMac& find_mac) {
  auto response = http_get(endpoint, kStatusPath, kStatusBytesMax, deadline);
  const auto challenge = response ? parse_challenge(response->challenge) : std::nullopt;
  if (!challenge) return response;
  const auto refused = [&](const Error& why) {
    const std::string shown = public_state(*response);
    return make_error(why.code, fmt::format("{}: {}: {}", endpoint.to_string(), shown, why.detail));
  };
  const auto mac = find_mac(*challenge);
  if (!mac) return refused(mac.error());
  auto proved = http_get(
      endpoint,
      kStatusPath,
      kStatusBytesMax,
      deadline,
      authorization_header(*mac, challenge->nonce));
  if (proved && !proved->challenge.empty()) {
    return refused(make_error(Errc::kInvalidArgument, "the secret is not that of the job"));
  }
  return proved;
}

}  // namespace

Result<Mac> mac_by_munge(const StatusChallenge& challenge) {
  if (challenge.method == AuthMethod::kMunge) return open_credential(challenge.credential);
  return make_error(Errc::kInvalidArgument, "the job has a secret");
}

Result<std::string> fetch_status(Endpoint endpoint, TimePoint deadline, const FindMac& find_mac) {
  // Another node may become leader meanwhile; more than a few times is a loop.
  constexpr int kRedirectsMax = 4;
  for (int redirects = 0; redirects <= kRedirectsMax; ++redirects) {
    auto response = get_status(endpoint, deadline, find_mac);
    if (!response) return response.error();
    if (response->status == 200) return std::move(response->body);
    const std::string where = endpoint.to_string();
    const bool names_another = response->status == 307 && !response->location.empty();
    if (!names_another) return with_context(where, no_status(*response));
    auto leader = leader_at(response->location);
    if (!leader) return with_context(where, leader.error());
    endpoint = *std::move(leader);
  }
  return format_error(
      Errc::kPeerLost,
      "{}: every node names another as the leader; try again",
      endpoint.to_string());
}

Result<std::string> job_at(const Endpoint& endpoint, TimePoint deadline) {
  const auto response = http_get(endpoint, kStatusPath, kStatusBytesMax, deadline);
  if (!response) return response.error();
  const bool is_store_alone = response->status == 404;
  if (response->server != "ddprun" || is_store_alone) {
    return format_error(Errc::kProtocol, "{}: it is no node of a job", endpoint.to_string());
  }
  const auto body = fetch_status(endpoint, deadline, mac_by_munge);
  if (!body) return std::string();
  const auto status = parse_status(*body);
  return status ? status->job : std::string();
}

}  // namespace ddprun
