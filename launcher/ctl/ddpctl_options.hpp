#pragma once

// The command line of ddpctl, parsed.

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "launcher/ctl/doctor/doctor.hpp"
#include "launcher/ctl/hostlist.hpp"
#include "launcher/ctl/reports/reports.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"
#include "launcher/ctl/stage/stage.hpp"
#include "launcher/ctl/status/status.hpp"
#include "launcher/ctl/store_serve.hpp"
#include "launcher/ctl/submit/core/arguments.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// `--help` or `--version`: the text to print before ddpctl exits with 0.
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
    StoreServeOptions>;

/// Fails with kInvalidArgument: bad usage, in one line.
Result<DdpctlCommand> parse_ddpctl(int argc, const char* const* argv);

}  // namespace ddprun
