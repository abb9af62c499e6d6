#include "launcher/ctl/status/status.hpp"

#include "base/environment.hpp"
#include "base/format_error.hpp"
#include "base/standard_streams.hpp"
#include "launcher/ctl/status/core/status_text.hpp"
#include "launcher/flags/secret.hpp"
#include "rendezvous/core/status.hpp"
#include "rendezvous/core/status_proof.hpp"
#include "rendezvous/job_files.hpp"
#include "rendezvous/load_mac.hpp"
#include "rendezvous/status_client.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {
namespace {

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

Result<Mac> mac_for(const StatusChallenge& challenge, const StatusOptions& options) {
  if (challenge.method == AuthMethod::kMunge) return mac_by_munge(challenge);
  std::optional<Given> file;
  if (!options.secret_file.empty())
    file = Given{.text = options.secret_file, .source = "--secret-file"};
  const auto secret = find_secret(file, current_environment());
  if (!secret) return secret.error();
  if (!secret->empty()) return load_mac(*secret);
  return format_error(
      Errc::kInvalidArgument, "the job has a secret; give its --secret-file, as to ddprun");
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
  const auto body =
      fetch_status(*options.endpoint, deadline, [&](const StatusChallenge& challenge) {
        return mac_for(challenge, options);
      });
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
