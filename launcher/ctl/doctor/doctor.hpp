#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 has named it
class App;
}  // namespace CLI

namespace ddprun {

struct DoctorOptions {
  std::vector<std::string> data;     // paths that a job will read
  std::uint16_t port = 0;            // that a job will listen on; 0: in a step, Slurm's
  std::string interface;             // that a job will use; empty: see GLOO_ and NCCL_SOCKET_IFNAME
  std::string log_directory;         // of a job; empty: PET_LOG_DIR, if it is set
  std::uint64_t bytes_free_min = 0;  // on each disk
  std::vector<Endpoint> reach;       // to connect to
  double limit_s = 2;                // for each probe
  double wait_s = 10;                // for the doctors of a step's other nodes
  std::vector<std::string> skip;     // checks, by the first word of their subjects
  bool json = false;
};

/// The flags of `ddpctl doctor` as CLI11 reads them.
struct RawDoctor {
  DoctorOptions options;
  std::string min_free = "1G";
  std::vector<std::string> reach;
};

void add_doctor(CLI::App& app, RawDoctor& raw);

/// Fails with kInvalidArgument, naming the flag and its value.
Result<DoctorOptions> checked(const RawDoctor& raw);

/// What `skip` accepts.
const std::vector<std::string>& check_names();

/// `ddpctl doctor`: probes, and prints a line for each result; yields whether all is well. Takes at
/// most `limit_s`, and in a step of several nodes `wait_s` more. Fails with kIo if the report
/// cannot be written.
Result<bool> examine(const DoctorOptions& options);

}  // namespace ddprun
