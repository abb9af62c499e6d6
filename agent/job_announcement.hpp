#pragma once

#include "agent/core/launch_plan.hpp"
#include "agent/journal.hpp"
#include "base/endpoint.hpp"
#include "rendezvous/job_files.hpp"

#include <memory>

namespace ddprun {

/// The file by which `ddpctl status` on this host finds the job. The job runs without it as well,
/// so nothing waits for it: the thread of the journal's disk writes it.
class JobAnnouncement {
 public:
  /// Or replaces it. `leader`: who answers.
  void write(const LaunchPlan& plan, const Endpoint& leader, Journal& journal);
  void remove(Journal& journal);

 private:
  std::shared_ptr<OwnJobFile> file_;  // with the thread that writes it
};

}  // namespace ddprun
