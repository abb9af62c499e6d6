#pragma once

// The flags of `ddpctl doctor`.

#include "base/error.hpp"
#include "launcher/ctl/doctor/doctor.hpp"

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

/// The flags as CLI11 reads them.
struct RawDoctor {
  DoctorOptions options;
  std::string min_free = "1G";
  std::vector<std::string> reach;
};

void add_doctor(CLI::App& app, RawDoctor& raw);

/// Fails with kInvalidArgument, naming the flag and its value.
Result<DoctorOptions> checked(const RawDoctor& raw);

}  // namespace ddprun
