#pragma once

// The directory and file of an offline wandb run, for report_files.cpp.

#include "base/error.hpp"
#include "trainer/report_files.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// The name of this machine; "unknown" where the kernel does not say.
std::string this_host();

/// Makes "wandb/offline-run-<time>-<id>/" with its file, under a name that nobody has.
/// Of `options` only what all dashboards share is read. Fails with kInvalidArgument for an id that
/// is none, kIo or kNotFound.
Result<std::unique_ptr<ReportSink>> open_wandb(
    const ReportFileOptions::Wandb& asked, const ReportFileOptions& options, double time_s);

}  // namespace ddprun
