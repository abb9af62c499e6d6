#pragma once

#include "base/error.hpp"
#include "launcher/ctl/snapshot/verbs.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

/// The flags of all verbs of `ddpctl snapshot`; one verb is given.
struct RawSnapshot {
  ListSnapshots ls;
  VerifySnapshots verify;
  InspectSnapshot inspect;
  DiffSnapshots diff;
  ExportSnapshot to_python;
  ImportSnapshot from_python;
};

void add_snapshot(CLI::App& app, RawSnapshot& raw);

/// The given verb below `app`. Fails with kInvalidArgument. REQUIRES: `app` has parsed
/// `snapshot`.
Result<SnapshotCommand> checked(const CLI::App& app, const RawSnapshot& raw);

}  // namespace ddprun
