#include "trainer/worker_program.hpp"

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/standard_streams.hpp"
#include "base/worker_contract.hpp"
#include "trainer/crash_handler.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

#include <malloc.h>

namespace ddprun {
namespace {

/// By default glibc returns every block above 128 KiB to the kernel, and each step would fault in
/// all its pages again: a third of the time of a small net.
void keep_freed_memory() {
  constexpr int kMmapThresholdMax = 32 << 20;  // glibc's maximum
  constexpr int kTrimThreshold = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kMmapThresholdMax);
  ::mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace

TrainFailure failure_of(const Error& error) {
  int status = kExitBadFile;
  if (error.is(Errc::kPeerLost)) status = kExitTryAgain;
  if (error.is(Errc::kBadNumbers)) status = kExitBadNumbers;
  return {.exit_status = status, .message = error.detail};
}

TrainFailure failure_of(const std::exception& thrown) {
  if (is_timeout(thrown.what())) {
    const auto ranks = ranks_that_keep_others_waiting();
    if (!ranks.empty()) return kept_waiting_by(ranks);
  }
  return classify_failure(thrown.what());
}

void prepare_worker() {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for this signal
  fill_closed_streams();
  install_crash_handler();
  keep_freed_memory();
}

void take_on(const FilledEnvironment& environment) {
  for (const auto& [name, source] : environment.sources) {
    ::setenv(name.c_str(), environment.find(name).value_or("").c_str(), 0);
  }
}

int end_by(const TrainFailure& failure) {
  const char* const rank = std::getenv(contract::kRank);
  write_stderr(fmt::format(
      "{}: rank {}: {}\n",
      ::program_invocation_short_name,
      rank == nullptr ? "0" : rank,
      failure.message));
  const char* const path = std::getenv(contract::kErrorFile);
  if (path == nullptr || *path == '\0') return failure.exit_status;
  const auto written = overwrite_file(path, error_file_json(failure.message, std::time(nullptr)));
  if (!written) write_stderr(fmt::format("ddprun: no error file: {}\n", written.error().detail));
  return failure.exit_status;
}

void leave_worker(int exit_status) {
  std::fflush(nullptr);
  std::_Exit(exit_status);
}

void run_worker(
    const std::function<void(const WorkerPlace& place, const ProcessGroup& group)>& train) {
  prepare_worker();
  // Otherwise a pipe gets it in blocks of 4 KiB, and a slow epoch looks like a hang.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // NOLINT(cert-err33-c): if it fails, nothing changes
  const auto environment = fill_environment(current_environment());
  if (environment) take_on(*environment);
  const auto place = environment ? parse_worker_place(*environment) : environment.error();
  if (!place) leave_worker(end_by({.exit_status = kExitUsage, .message = place.error().detail}));
  try {
    train(*place, need(make_process_group(*place)));
  } catch (const Failure& failure) {
    leave_worker(end_by(failure_of(failure.error())));
  } catch (const std::exception& error) {
    leave_worker(end_by(failure_of(error)));
  }
  leave_worker(kExitOk);
}

}  // namespace ddprun
