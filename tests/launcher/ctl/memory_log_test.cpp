#include "launcher/ctl/reports/core/memory_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kHeader[] = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n";

std::string gpu_row(int gpu, const std::string& used) {
  return "2025/06/01 10:00:00.123, " + std::to_string(gpu) + ", NVIDIA A100-SXM4-80GB, " + used +
         ", 81920\n";
}

std::string refusal_of_gpu_log(const std::string& text) {
  const auto log = parse_gpu_log(text);
  return log ? "accepted" : log.error().detail;
}

std::string refusal_of_cpu_log(const std::string& text) {
  const auto log = parse_cpu_log(text);
  return log ? "accepted" : log.error().detail;
}

TEST(GpuLog, HasTheSamplesOfEachGpu) {
  const auto log = parse_gpu_log(
      kHeader + gpu_row(1, "2") + gpu_row(0, "1") + gpu_row(1, "4") + gpu_row(0, "3"));
  EXPECT_THAT(log.value(), ElementsAre(Pair(0, ElementsAre(1, 3)), Pair(1, ElementsAre(2, 4))));
}

TEST(GpuLog, ContinuesAfterTheHeaderOfASamplerThatWasStartedAgain) {
  const auto log = parse_gpu_log(kHeader + gpu_row(0, "1") + kHeader + gpu_row(0, "3"));
  EXPECT_THAT(log.value(), ElementsAre(Pair(0, ElementsAre(1, 3))));
}

TEST(GpuLog, LeavesOutALineThatWasCutOff) {
  const auto log = parse_gpu_log(kHeader + gpu_row(0, "1") + "2025/06/01 10:00:05.1, 0, NVID");
  EXPECT_THAT(log.value(), ElementsAre(Pair(0, ElementsAre(1))));
  const std::string whole = kHeader + gpu_row(0, "1");
  EXPECT_TRUE(parse_gpu_log(whole.substr(0, whole.size() - 1)));
}

TEST(GpuLog, RefusesALineWithItsNumber) {
  EXPECT_EQ(
      refusal_of_gpu_log(kHeader + gpu_row(0, "1") + gpu_row(0, "[N/A]")),
      "line 3, '2025/06/01 10:00:00.123, 0, NVIDIA A100-...': expected five columns, the second a "
      "GPU's index, the fourth a number of MiB");
  EXPECT_THAT(refusal_of_gpu_log(kHeader + gpu_row(-1, "1")), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of_gpu_log(kHeader + gpu_row(0, "-1")), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of_gpu_log(kHeader + gpu_row(0, "12 MiB")), HasSubstr("line 2"));
  EXPECT_THAT(refusal_of_gpu_log(gpu_row(0, "1")), HasSubstr("line 1"));
}

TEST(GpuLog, RefusesOneWithoutSamples) {
  EXPECT_EQ(refusal_of_gpu_log(""), "it has no samples");
  EXPECT_EQ(refusal_of_gpu_log(kHeader), "it has no samples");
}

TEST(CpuLog, HasTheRealMemory) {
  const auto log = parse_cpu_log(
      "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
      "       0.000        0.000       10.5      1000.25\n"
      "\t5.002  99.9\t3892  20000\r\n"
      "      10.004       98.1       38");
  EXPECT_THAT(log.value(), ElementsAre(10.5, 3892, 38));
}

TEST(CpuLog, RefusesWhatIsNone) {
  EXPECT_THAT(refusal_of_cpu_log("0 1\n"), HasSubstr("line 1, '0 1': expected at least three"));
  EXPECT_THAT(refusal_of_cpu_log("# a\n0 1 x 3\n"), HasSubstr("line 2, '0 1 x 3'"));
  EXPECT_EQ(refusal_of_cpu_log("# a\n"), "it has no samples");
}

TEST(MemoryUse, IsThatOfTheWorkshop) {
  const MemoryUse gpu = memory_use({1, 10000, 26532, 26532, 26532}, Warmup::kCounted);
  EXPECT_EQ(
      gpu_use_line("gpu_memory_log", 0, gpu),
      "[gpu_memory_log - GPU 0] Peak = 26532 MiB, Avg = 17919.40 MiB, Mode = 26532 MiB\n");
  EXPECT_EQ(
      cpu_use_lines(memory_use({10.5, 3892, 3892}, Warmup::kCounted)),
      "   Peak =    3892 MB\n   Average = 2598.17 MB\n   Mode =    3892 MB\n");
}

TEST(MemoryUse, HasAllModesAscendingAndRoundsHalvesToEven) {
  const MemoryUse use = memory_use({3.5, 10.5, 2, 10.5, 3.5}, Warmup::kCounted);
  EXPECT_THAT(use.modes, ElementsAre(3.5, 10.5));
  EXPECT_EQ(modes_text(use), "4, 10");
}

TEST(MemoryUse, LeavesOutTheWarmupIfAsked) {
  EXPECT_EQ(
      memory_use({1, 1, 1, 50, 100, 30}, Warmup::kLeftOut),
      (MemoryUse{.peak = 100, .average = 60, .modes = {30, 50, 100}}));
  EXPECT_EQ(
      memory_use({0, 0}, Warmup::kLeftOut), (MemoryUse{.peak = 0, .average = 0, .modes = {0}}));
}

}  // namespace
}  // namespace ddprun
