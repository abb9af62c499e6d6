// ddptrain: the C++ DDP trainer. Alone it is a world of one; ddprun makes it one rank of many.

#include "base/descriptor.hpp"
#include "base/exit_status.hpp"
#include "base/file.hpp"
#include "base/say.hpp"
#include "base/worker_contract.hpp"
#include "trainer/core/failure.hpp"
#include "trainer/core/worker_place.hpp"
#include "trainer/options.hpp"
#include "trainer/train.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
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

int run(int argc, const char* const* argv) {
  const auto wanted = parse_train_options(argc, argv);
  if (!wanted) return fail({.exit_status = kExitUsage, .message = wanted.error().detail});
  if (const auto* print = std::get_if<PrintAndLeave>(&*wanted); print != nullptr) {
    const auto printed = answer(print->text);
    return printed ? kExitOk
                   : fail({.exit_status = kExitBadFile, .message = printed.error().detail});
  }
  const auto place = parse_worker_place(variable);
  if (!place) return fail({.exit_status = kExitUsage, .message = place.error().detail});
  try {
    const auto trained = train(std::get<TrainOptions>(*wanted), *place);
    if (!trained) return fail({.exit_status = kExitBadFile, .message = trained.error().detail});
  } catch (const std::exception& error) {
    return fail(classify_failure(error.what()));
  }
  return kExitOk;
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
