#pragma once

// The command line of ddpctl, parsed.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "launcher/core/submit_arguments.hpp"
#include "launcher/doctor.hpp"
#include "launcher/hostlist.hpp"
#include "launcher/memory_report.hpp"
#include "launcher/rendezvous_bench.hpp"
#include "launcher/scaling_report.hpp"
#include "launcher/snapshot_verbs.hpp"
#include "launcher/stage.hpp"
#include "launcher/status.hpp"
#include "launcher/store_bench.hpp"
#include "launcher/store_serve.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// `--help` or `--version`: what to print before a successful end.
struct ShowText {
  std::string text;
};

using DdpctlCommand = std::variant<
    ShowText,
    StatusOptions,
    HostlistOptions,
    DoctorOptions,
    MemoryOptions,
    ScalingOptions,
    SubmitOptions,
    StageOptions,
    SnapshotCommand,
    StoreServeOptions,
    StoreBenchOptions,
    RendezvousBenchOptions>;

/// Fails with kInvalidArgument: bad usage, in one line.
Result<DdpctlCommand> parse_ddpctl(int argc, const char* const* argv);

}  // namespace ddprun
