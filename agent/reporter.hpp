#pragma once

// Tells a person how an attempt failed: gathers what streams and workers know of it, and has the
// journal's thread read the rest and write the paragraph.

#include "agent/core/failure_report.hpp"
#include "agent/core/launch_plan.hpp"
#include "agent/core/supervisor.hpp"
#include "agent/journal.hpp"
#include "agent/streams.hpp"
#include "agent/worker_group.hpp"

#include <optional>
#include <string>

namespace ddprun {

class Reporter {
 public:
  /// All of these outlive the reporter.
  struct Sources {
    const LaunchPlan& plan;
    const std::string& host;
    const Streams& streams;
    const WorkerGroup& workers;
    Journal& journal;
  };

  explicit Reporter(const Sources& from) : from_(from) {}

  /// Notes what is known while the attempt's workers are still remembered.
  void note(const AttemptReport& report);

  /// Tells what was noted, if anything. It may wait 0.2 s for the culprit's last lines, so whatever
  /// is urgent comes first.
  void tell();

 private:
  Sources from_;
  std::optional<FailureReport> noted_;
};

}  // namespace ddprun
