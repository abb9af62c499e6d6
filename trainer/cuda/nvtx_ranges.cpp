#include "trainer/cuda/nvtx_ranges.hpp"

#include <memory>

#include <nvtx3/nvToolsExt.h>

namespace ddprun {
namespace {

// A collective is asynchronous, and may end on a thread that has pushed no range.

std::unique_ptr<at::ObserverContext> push(const at::RecordFunction& function) {
  if (!function.isAsync()) nvtxRangePushA(function.name());
  return nullptr;
}

void pop(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (!function.isAsync()) nvtxRangePop();
}

}  // namespace

NvtxRanges::NvtxRanges()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&push, &pop).scopes({at::RecordScope::USER_SCOPE}))) {}

NvtxRanges::~NvtxRanges() {
  at::removeCallback(handle_);
}

}  // namespace ddprun
