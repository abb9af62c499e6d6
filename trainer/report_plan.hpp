#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/run_report.hpp"

namespace ddprun {

/// Has each run of KAUST's style write its event files into a directory of its own, named by
/// --run-name, else as theirs are: "ddp_<model>_<time of the start>".
void name_event_files(TrainOptions& options);

/// Opens what `options` ask to report to, in the style that they name. Fails as RunReport::open().
Result<RunReport> open_report(const TrainOptions& options, const WorkerPlace& place);

/// What a report of the run's beginning knows from its flags; the caller adds what the data and the
/// model turned out to be.
RunBegan run_began(const TrainOptions& options, const WorkerPlace& place);

}  // namespace ddprun
