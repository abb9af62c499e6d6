#include "launcher/ctl/status/status.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/status/core/status_text.hpp"
#include "rendezvous/core/status.hpp"
#include "rendezvous/http_get.hpp"
#include "rendezvous/job_files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

constexpr std::string_view kPath = "/status";
// Another node may become leader meanwhile; more than a few times is a loop.
constexpr int kRedirectsMax = 4;
constexpr std::size_t kShownBytesMax = 200;
constexpr std::size_t kReasonBytesMax = 1'000;

/// HOST:PORT of "http://HOST:PORT/status".
Result<Endpoint> leader_at(std::string_view location) {
  constexpr std::string_view kScheme = "http://";
  const auto refused = [location] {
    return format_error(
        Errc::kProtocol, "it names '{}' as the leader", location.substr(0, kShownBytesMax));
  };
  if (!location.starts_with(kScheme) || !location.ends_with(kPath)) return refused();
  location.remove_prefix(kScheme.size());
  location.remove_suffix(kPath.size());
  auto leader = Endpoint::parse(location, 0);
  if (!leader || leader->port == 0) return refused();
  return leader;
}

Error no_status(const HttpResponse& response) {
  constexpr int kNoLeader = 503;  // of an agent, which explains what it waits for
  const std::string_view said = trim(response.body);
  return format_error(
      Errc::kPeerLost,
      "it answers {}{}{}{}",
      response.status,
      said.empty() ? "" : ": ",
      said.substr(0, std::min(said.find('\n'), kReasonBytesMax)),
      response.status == kNoLeader ? "" : "; give the address and port of a node of the job");
}

std::string jobs_text(const std::vector<JobFile>& jobs) {
  std::size_t address_width = 0;
  std::size_t job_width = 0;
  for (const JobFile& job : jobs) {
    address_width = std::max(address_width, job.address.size());
    job_width = std::max(job_width, job.job.size());
  }
  std::string text;
  for (const JobFile& job : jobs) {
    text += fmt::format(
        "{:<{}}  job {:<{}}  agent {}: {}\n",
        job.address,
        address_width,
        job.job,
        job_width,
        job.pid,
        job.command);
  }
  return text;
}

std::string jobs_json(const std::vector<JobFile>& jobs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JobFile& job : jobs) {
    list.push_back(
        {{"address", job.address}, {"job", job.job}, {"pid", job.pid}, {"command", job.command}});
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

Result<std::string> fetch_status(Endpoint endpoint, TimePoint deadline) {
  for (int redirects = 0; redirects <= kRedirectsMax; ++redirects) {
    auto response = http_get(endpoint, kPath, kStatusBytesMax, deadline);
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

Result<void> list_jobs(bool json) {
  const auto directory = job_files_directory();
  const auto jobs = read_job_files(directory);
  if (!jobs) return jobs.error();
  if (json) return write_stdout(jobs_json(*jobs));
  if (jobs->empty()) {
    return write_stdout(fmt::format(
        "no job of this user runs on this host (by {}); for one elsewhere give HOST:PORT\n",
        directory.string()));
  }
  return write_stdout(jobs_text(*jobs));
}

}  // namespace

Result<void> show_status(const StatusOptions& options) {
  if (!options.endpoint) return list_jobs(options.json);
  const auto timeout = std::chrono::duration<double>(options.timeout_s);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Duration>(timeout);
  const auto body = fetch_status(*options.endpoint, deadline);
  if (!body) return body.error();
  const auto status = parse_status(*body);
  if (!status) {
    return with_context(
        fmt::format("{}: cannot understand its reply", options.endpoint->to_string()),
        status.error());
  }
  return write_stdout(options.json ? *body : status_text(*status));
}

}  // namespace ddprun
