// What a tool that listens to NVTX receives: the test is such a tool, linked in the way that NVTX's
// headers provide.

#include "trainer/cuda/nvtx_ranges.hpp"

#include "trainer/phase_range.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nvtx3/nvToolsExt.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> g_heard;

int hear_push(const char* name) {
  g_heard.emplace_back(name);
  return 0;
}

int hear_pop() {
  g_heard.emplace_back("end");
  return 0;
}

template <class Function>
NvtxFunctionPointer as_nvtx(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

int listen(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = as_nvtx(&hear_push);
  *functions[NVTX_CBID_CORE_RangePop] = as_nvtx(&hear_pop);
  return 1;
}

class NvtxRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    InitializeInjectionNvtx2_fnptr = &listen;  // read once, at the first range
    g_heard.clear();
  }
};

TEST_F(NvtxRangesTest, HaveTheNamesOfThePhasesAndNest) {
  const NvtxRanges ranges;
  {
    const PhaseRange train(kTrainRange);
    { const PhaseRange data(kDataRange); }
    { const PhaseRange copy(kCopyRange); }
    { const PhaseRange forward(kForwardRange); }
    { const PhaseRange backward(kBackwardRange); }
  }
  EXPECT_THAT(
      g_heard,
      ElementsAre(
          "Train",
          "Data loading",
          "end",
          "Copy to device",
          "end",
          "Forward pass",
          "end",
          "Backward pass",
          "end",
          "end"));
}

TEST_F(NvtxRangesTest, AreThereDuringACaptureAlone) {
  { const PhaseRange before(kTrainRange); }
  { const NvtxRanges ranges; }
  { const PhaseRange after(kTrainRange); }
  EXPECT_THAT(g_heard, IsEmpty());
}

TEST_F(NvtxRangesTest, LeaveOutWhatMayEndOnAnotherThread) {
  const NvtxRanges ranges;
  at::RecordFunction collective(at::RecordScope::USER_SCOPE);
  collective._setAsync();
  collective.before("nccl:all_reduce");
  collective.end();
  EXPECT_THAT(g_heard, IsEmpty());
}

}  // namespace
}  // namespace ddprun
