// ddptrain: the C++ DDP trainer. Alone it is a world of one; under ddprun, srun or mpirun it is one
// rank of many.

#include "base/environment.hpp"
#include "base/exit_status.hpp"
#include "base/standard_streams.hpp"
#include "base/worker_contract.hpp"
#include "trainer/core/burn_in.hpp"
#include "trainer/core/failure.hpp"
#include "trainer/core/filled_environment.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/devices.hpp"
#include "trainer/model.hpp"
#include "trainer/notice_watch.hpp"
#include "trainer/numerics.hpp"
#include "trainer/options.hpp"
#include "trainer/train.hpp"
#include "trainer/worker_program.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

int refuse(const Error& error) {
  return end_by({.exit_status = kExitUsage, .message = error.detail});
}

int print(const std::string& text) {
  const auto printed = write_stdout(text);
  return printed ? kExitOk
                 : end_by({.exit_status = kExitBadFile, .message = printed.error().detail});
}

/// Null without --snapshot-dir, or while weights are only tested: nothing is saved then. A launcher
/// other than ddprun stops workers by SIGTERM for any reason, without saying which.
Result<std::unique_ptr<NoticeWatch>> watch_for_notice(const TrainOptions& options) {
  const auto notice_file = variable(contract::kNoticeFile);
  const bool is_other_launcher = !notice_file && variable(contract::kRunId);
  const bool saves = options.snapshots.directory && !options.evaluated;
  if (!saves || is_other_launcher) return std::unique_ptr<NoticeWatch>();
  return NoticeWatch::begin(notice_file);
}

/// Printed by every rank that fails: the failed rank ends first, and may end the others.
void tell_burn_in_failed() {
  static_cast<void>(write_stdout(fmt::format("{}\n", kBurnInFailed)));
}

/// Ends a training that has begun.
int fail(const TrainOptions& options, const TrainFailure& failure) {
  if (options.burn_in_hours) tell_burn_in_failed();
  return end_by(failure);
}

int print_parameter_count(const ModelOptions& options) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : make_model(options)->parameters()) {
    count += parameter.numel();
  }
  return print(fmt::format("{}\n", count));
}

int train_with(TrainOptions options) {
  if (options.local_rank) {
    ::setenv(contract::kLocalRank, std::to_string(*options.local_rank).c_str(), 0);
  }
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
  const auto opened = open_device(options.device, *place);
  if (!opened) {  // a burn-in must also detect this
    if (options.burn_in_hours) tell_burn_in_failed();
    return refuse(opened.error());
  }
  options.device = opened->kind;
  const auto fits = check_flags_of_gpus(options);
  if (!fits) return refuse(fits.error());
  choose_numerics(options);
  const auto trained = train(options, *place, *opened->device, notice->get());
  if (trained) return *trained == TrainEnd::kSaved ? kExitTryAgain : kExitOk;
  return fail(options, failure_of(trained.error()));
}

int run(int argc, const char* const* argv) {
  const auto wanted = parse_train_options(argc, argv);
  if (!wanted) return refuse(wanted.error());
  const auto* const options = std::get_if<TrainOptions>(&*wanted);
  if (options == nullptr) return print(std::get_if<PrintAndLeave>(&*wanted)->text);
  try {
    if (options->counts_parameters) return print_parameter_count(options->model);
    return train_with(*options);
  } catch (const std::exception& error) {
    return fail(*options, failure_of(error));
  }
}

}  // namespace
}  // namespace ddprun

int main(int argc, char* const* argv) {
  ddprun::prepare_worker();
  ddprun::leave_worker(ddprun::run(argc, argv));
}
