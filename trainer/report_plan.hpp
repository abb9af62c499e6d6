#pragma once

#include "base/error.hpp"
#include "trainer/core/options.hpp"
#include "trainer/core/report_event.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/run_report.hpp"

namespace ddprun {

/// Makes each run of KAUST's style write its event files into its own directory, named by
/// --run-name, else like theirs: "ddp_<model>_<time of the start>".
void name_event_files(TrainOptions& options);

/// Opens the outputs that `options` request, in their style. Fails as RunReport::open().
Result<RunReport> open_report(const TrainOptions& options, const WorkerPlace& place);

/// The event of the run's start, from its flags; the caller adds the properties of the data and the
/// model.
RunBegan run_began(const TrainOptions& options, const WorkerPlace& place);

}  // namespace ddprun
