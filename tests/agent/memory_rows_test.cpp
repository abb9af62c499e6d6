#include "agent/core/memory_rows.hpp"

#include "agent/core/file_name.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

LaunchPlan plan_of(const std::string& run_id) {
  LaunchPlan plan;
  plan.run_id = run_id;
  plan.memory_log.directory = "logs";
  return plan;
}

TEST(MemoryLogPaths, AreThoseOfTheWorkshopOnOneNode) {
  const auto paths = memory_log_paths(plan_of("117"), "node0");
  EXPECT_EQ(paths.gpu_memory, "logs/gpu_memory/117/gpu_memory_log.csv");
  EXPECT_EQ(paths.gpu_usage, "logs/gpu_usage/117/gpu_usage_log.csv");
  EXPECT_EQ(paths.cpu_memory, "logs/cpu_memory/117/cpu_memory_log.txt");
}

TEST(MemoryLogPaths, NameTheHostWhereThereAreSeveral) {
  LaunchPlan plan = plan_of("117");
  plan.shares_logs = true;
  const auto paths = memory_log_paths(plan, "node0");
  EXPECT_EQ(paths.gpu_memory, "logs/gpu_memory/117/gpu_memory_log_node0.csv");
  EXPECT_EQ(paths.cpu_memory, "logs/cpu_memory/117/cpu_memory_log_node0.txt");
}

TEST(MemoryLogPaths, StayBelowTheDirectoryWhateverTheJobIsCalled) {
  EXPECT_EQ(
      memory_log_paths(plan_of("../a/b"), "h").cpu_memory,
      "logs/cpu_memory/.._a_b/cpu_memory_log.txt");
  EXPECT_EQ(as_file_name(".."), ".._");
  EXPECT_EQ(as_file_name(""), "_");
}

TEST(Timestamp, IsThatOfNvidiaSmi) {
  std::tm local{};
  local.tm_year = 125;
  local.tm_mon = 5;
  local.tm_mday = 1;
  local.tm_hour = 9;
  local.tm_sec = 7;
  EXPECT_EQ(timestamp_text(local, 45), "2025/06/01 09:00:07.045");
}

GpuSample gpu(unsigned index) {
  return {
      .index = index,
      .name = "H200, big",
      .memory = GpuSample::Memory{.used_bytes = 26532 * kMiB + 5, .total_bytes = 81920 * kMiB},
      .temperature_c = 41,
      .power_w = 123.45,
      .utilisation = GpuSample::Utilisation{.gpu_percent = 97, .memory_percent = 31}};
}

TEST(GpuRows, AreOneForEachGpuWithoutUnits) {
  const std::vector<GpuSample> gpus = {gpu(0), gpu(1)};
  EXPECT_EQ(
      gpu_memory_rows("T", gpus),
      "T, 0, H200  big, 26532, 81920\n"
      "T, 1, H200  big, 26532, 81920\n");
  EXPECT_EQ(
      gpu_usage_rows("T", gpus),
      "T, 0, H200  big, 41, 123.45, 97, 31\n"
      "T, 1, H200  big, 41, 123.45, 97, 31\n");
}

TEST(GpuRows, LeaveOpenWhatTheDriverDoesNotTell) {
  const std::vector<GpuSample> gpus = {
      {.index = 3,
       .name = "G",
       .memory = {},
       .temperature_c = {},
       .power_w = {},
       .utilisation = {}}};
  EXPECT_EQ(gpu_memory_rows("T", gpus), "");
  EXPECT_EQ(gpu_usage_rows("T", gpus), "T, 3, G, , , , \n");
}

constexpr char kStat[] =
    "42 (a) (b c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 5 1048576 256 18446744073709"
    "551615 1 1 0\n";

TEST(Process, IsReadAfterANameWithAnythingInIt) {
  const KernelUnits units{.ticks_per_second = 100, .page_bytes = 4096};
  EXPECT_EQ(
      parse_process(kStat, units),
      (ProcessSample{.cpu = 2500ms, .real_bytes = kMiB, .virtual_bytes = kMiB}));
}

TEST(Process, IsNoneWhereTheTextIsCutOff) {
  EXPECT_EQ(parse_process("", {}), std::nullopt);
  EXPECT_EQ(parse_process("42 (a) S 1 42", {}), std::nullopt);
}

ProcessSample tree(Duration cpu, std::int64_t real = 0, std::int64_t virtual_size = 0) {
  return {.cpu = cpu, .real_bytes = real, .virtual_bytes = virtual_size};
}

TEST(CpuRows, HaveSecondsPercentAndMegabytes) {
  const TimePoint begin{};
  CpuRows rows(begin);
  EXPECT_EQ(
      rows.next(tree(3s, 10 * kMiB + kMiB / 2, 200 * kMiB), begin + 1ms),
      "       0.001        0.000       10.500      200.000\n");
  EXPECT_EQ(
      rows.next(tree(10s, 3892 * kMiB), begin + 5001ms),
      "       5.001      140.000     3892.000        0.000\n");
}

TEST(CpuRows, DoNotGoBackWhileAProcessThatEndedIsNotCounted) {
  const TimePoint begin{};
  CpuRows rows(begin);
  static_cast<void>(rows.next(tree(4s), begin));
  EXPECT_THAT(rows.next(tree(1s), begin + 1s), testing::HasSubstr(" 1.000        0.000 "));
  EXPECT_THAT(rows.next(tree(5s), begin + 2s), testing::HasSubstr(" 2.000      100.000 "));
}

TEST(Headers, AreAsWideAsTheRows) {
  CpuRows rows(TimePoint{});
  EXPECT_EQ(kCpuMemoryHeader.size(), rows.next({}, TimePoint{}).size());
  EXPECT_EQ(kGpuMemoryHeader, "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n");
}

TEST(ParseProportional, IsTheKernelsSumInBytes) {
  EXPECT_EQ(
      parse_proportional("55c9-7ffd ---p 00000000 00:00 0  [rollup]\n"
                         "Rss:              612312 kB\n"
                         "Pss:              446930 kB\n"
                         "Pss_Dirty:        342548 kB\n"),
      446'930 * 1024);
  EXPECT_EQ(parse_proportional(""), std::nullopt);
  EXPECT_EQ(parse_proportional("Pss: 12 MB\n"), std::nullopt);
  EXPECT_EQ(parse_proportional("Pss: x kB\n"), std::nullopt);
}

}  // namespace
}  // namespace ddprun
