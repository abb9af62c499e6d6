#include "base/flag_checks.hpp"
#include "launcher/ctl/core/byte_size.hpp"
#include "launcher/ctl/doctor/core/diagnosis.hpp"
#include "launcher/ctl/doctor/doctor.hpp"

#include <utility>

namespace ddprun {
namespace {

constexpr int kPortMax = 65'535;
constexpr double kTimeoutMaxS = 3'600;

}  // namespace

void add_doctor(CLI::App& app, RawDoctor& raw) {
  DoctorOptions& options = raw.options;
  CLI::App* const doctor = app.add_subcommand(
      "doctor", "Find problems that would stop a job on this node; under srun, also between nodes");
  const auto add = [doctor](const char* flag, auto& value, const char* help) {
    return doctor->add_option(flag, value, help)->check(not_empty())->allow_extra_args(false);
  };
  add("--data", options.data, "File or directory that the job will read; may be repeated");
  add("--interface", options.interface, "Network interface that the job will use");
  add("--log-dir", options.log_directory, "Log directory of the job (default: PET_LOG_DIR)");
  add("--min-free", raw.min_free, "Minimum free space of each disk: bytes, or with K, M, G or T")
      ->capture_default_str();
  add("--reach", raw.reach, "HOST:PORT that must accept connections; may be repeated");
  doctor
      ->add_option("--port", options.port, "Port that the job will listen on (in a step: Slurm's)")
      ->transform(count(1, kPortMax));
  doctor->add_option("--limit", options.limit_s, "Time limit of each check, in seconds")
      ->check(between(0.1, kTimeoutMaxS))
      ->capture_default_str();
  doctor->add_option("--wait", options.wait_s, "Seconds to wait for the other nodes of the step")
      ->check(between(0.1, kTimeoutMaxS))
      ->capture_default_str();
  doctor->add_option("--skip", options.skip, "Check to leave out; may be repeated")
      ->check(one_of(check_names()))
      ->allow_extra_args(false);
  doctor->add_flag("--json", options.json, "Print one JSON object");
}

Result<DoctorOptions> checked(const RawDoctor& raw) {
  DoctorOptions options = raw.options;
  const auto bytes = parse_size(raw.min_free);
  if (!bytes) return with_context("--min-free", bytes.error());
  options.bytes_free_min = *bytes;
  for (const std::string& text : raw.reach) {
    auto endpoint = endpoint_with_port("--reach", text);
    if (!endpoint) return endpoint.error();
    options.reach.push_back(*std::move(endpoint));
  }
  return options;
}

}  // namespace ddprun
