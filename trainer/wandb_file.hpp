#pragma once

// The directory and file of an offline wandb run, for report_files.cpp.

#include "base/error.hpp"
#include "trainer/report_files.hpp"

#include <memory>
#include <string>

namespace ddprun {

/// The name of this machine; "unknown" if the kernel does not report it.
std::string this_host();

/// Creates "wandb/offline-run-<time>-<id>/" with its file, under an unused name. Reads from
/// `options` only what all dashboards share. Fails with kInvalidArgument for an invalid id, kIo or
/// kNotFound.
Result<std::unique_ptr<ReportSink>> open_wandb(
    const ReportFileOptions::Wandb& asked, const ReportFileOptions& options, double time_s);

}  // namespace ddprun
