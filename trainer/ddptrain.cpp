// ddptrain: the C++ DDP trainer. Alone it is a world of one; ddprun, srun or mpirun make it one
// rank of many.

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/say.hpp"
#include "base/worker_contract.hpp"
#include "trainer/core/failure.hpp"
#include "trainer/core/filled_environment.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/model.hpp"
#include "trainer/notice_watch.hpp"
#include "trainer/options.hpp"
#include "trainer/train.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <malloc.h>
#include <unistd.h>

namespace ddprun {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

/// Says why on stderr, and to the agent in the error file; yields the exit status.
int fail(const TrainFailure& failure) {
  const std::string rank = variable(contract::kRank).value_or("0");
  say(fmt::format("ddptrain: rank {}: {}\n", rank, failure.message));
  const auto path = variable(contract::kErrorFile);
  if (!path || path->empty()) return failure.exit_status;
  const auto written = overwrite_file(*path, error_file_json(failure.message, std::time(nullptr)));
  if (!written) say(fmt::format("ddptrain: no error file: {}\n", written.error().detail));
  return failure.exit_status;
}

/// Keeps freed tensors in the process. By default glibc hands every block above 128 KiB back to the
/// kernel, and each step would fault all its pages in again: a third of the time of a small net.
void keep_freed_memory() {
  constexpr int kMmapThresholdMax = 32 << 20;  // glibc takes no more
  constexpr int kTrimThreshold = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kMmapThresholdMax);
  ::mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

int refuse(const Error& error) {
  return fail({.exit_status = kExitUsage, .message = error.detail});
}

int print(const std::string& text) {
  const auto printed = answer(text);
  return printed ? kExitOk : fail({.exit_status = kExitBadFile, .message = printed.error().detail});
}

/// What was filled in becomes this process's, so that whatever reads a variable sees the same.
void take_on(const FilledEnvironment& environment) {
  for (const auto& [name, source] : environment.sources) {
    ::setenv(name.c_str(), environment.find(name).value_or("").c_str(), 0);
  }
}

/// Nothing is saved without --snapshot-dir. A launcher that is not ddprun stops workers by SIGTERM
/// for any reason, and does not say which.
Result<std::unique_ptr<NoticeWatch>> watch_for_notice(const TrainOptions& options) {
  const auto notice_file = variable(contract::kNoticeFile);
  const bool is_other_launcher = !notice_file && variable(contract::kRunId);
  if (!options.snapshots.directory || is_other_launcher) return std::unique_ptr<NoticeWatch>();
  return NoticeWatch::begin(notice_file);
}

int status_of(const Error& error) {
  if (error.is(Errc::kPeerLost)) return kExitTryAgain;
  return error.is(Errc::kBadNumbers) ? kExitBadNumbers : kExitBadFile;
}

int print_parameter_count(const ModelOptions& options) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : make_model(options)->parameters()) {
    count += parameter.numel();
  }
  return print(fmt::format("{}\n", count));
}

int train_with(const TrainOptions& options) {
  const auto environment = fill_environment(current_environment());
  if (!environment) return refuse(environment.error());
  take_on(*environment);
  const auto is_ranked = require_rank(*environment);
  if (options.must_be_distributed && !is_ranked) return refuse(is_ranked.error());
  if (options.prints_environment) return print(environment_text(*environment));
  const auto place = parse_worker_place(*environment);
  if (!place) return refuse(place.error());
  const auto notice = watch_for_notice(options);
  if (!notice) return refuse(notice.error());
  const auto trained = train(options, *place, notice->get());
  if (trained) return *trained == TrainEnd::kSaved ? kExitTryAgain : kExitOk;
  return fail({.exit_status = status_of(trained.error()), .message = trained.error().detail});
}

int run(int argc, const char* const* argv) {
  const auto wanted = parse_train_options(argc, argv);
  if (!wanted) return refuse(wanted.error());
  if (const auto* show = std::get_if<PrintAndLeave>(&*wanted); show != nullptr) {
    return print(show->text);
  }
  try {
    const auto& options = std::get<TrainOptions>(*wanted);
    if (options.counts_parameters) return print_parameter_count(options.model);
    return train_with(options);
  } catch (const std::exception& error) {
    return fail(classify_failure(error.what()));
  }
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  // A peer or a reader of the metrics that has gone is an error to report, not a silent end.
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for this signal
  ddprun::fill_closed_streams();
  ddprun::keep_freed_memory();
  const int status = ddprun::run(argc, argv);
  std::fflush(nullptr);
  // Without destructors: torch's threads may still hold what they would tear down, and an exit that
  // waits for a lost peer would keep the whole job waiting.
  std::_Exit(status);
}
