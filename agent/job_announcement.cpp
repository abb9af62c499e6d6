#include "agent/job_announcement.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include <unistd.h>

namespace ddprun {

void JobAnnouncement::write(const LaunchPlan& plan, const Endpoint& leader, Journal& journal) {
  if (!file_) file_ = std::make_shared<OwnJobFile>();
  journal.post([file = file_,
                job = JobFile{
                    .job = plan.job_for_people(),
                    .address = leader.to_string(),
                    .command = plan.command.text,
                    .pid = ::getpid()}] {
    const auto written = file->write(job_files_directory(), job);
    if (!written) {
      spdlog::info("ddpctl status will not list this job: {}", written.error().detail);
    }
  });
}

void JobAnnouncement::remove(Journal& journal) {
  if (file_) journal.post([file = file_] { file->remove(); });
}

}  // namespace ddprun
