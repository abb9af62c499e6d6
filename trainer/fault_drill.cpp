#include "trainer/fault_drill.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include <unistd.h>

namespace ddprun {
namespace {

void commit(const Injection& injection) {
  switch (injection.fault) {
    case Fault::kKill:
      static_cast<void>(std::raise(SIGKILL));
      return;
    case Fault::kSegv: {
      volatile int* volatile nowhere = nullptr;  // volatile: otherwise the write is optimised away
      *nowhere = 1;  // NOLINT(clang-analyzer-core.NullDereference): what was asked for
      return;
    }
    case Fault::kHang:
      while (true) {
        ::pause();
      }
    case Fault::kSlow:
      std::this_thread::sleep_for(std::chrono::milliseconds(injection.delay_ms));
      return;
    case Fault::kOom:
      // More than any machine has; torch's own allocator refuses it.
      static_cast<void>(torch::empty({std::numeric_limits<std::int64_t>::max() / 16}));
      return;
    case Fault::kNan:
    case Fault::kDiskFull:
      return;  // handled by spoils_loss() and fills_disk()
  }
}

}  // namespace

FaultDrill::FaultDrill(
    const std::vector<Injection>& injections, std::int64_t rank, std::int64_t attempt) {
  std::ranges::copy_if(
      injections, std::back_inserter(injections_), [rank, attempt](const Injection& injection) {
        return is_for(injection, rank, attempt);
      });
}

void FaultDrill::before(std::int64_t step) const {
  for (const Injection& injection : injections_) {
    if (is_due(injection, step)) commit(injection);
  }
}

bool FaultDrill::is_due_now(Fault fault, std::int64_t step) const {
  return std::ranges::any_of(injections_, [fault, step](const Injection& injection) {
    return injection.fault == fault && is_due(injection, step);
  });
}

}  // namespace ddprun
