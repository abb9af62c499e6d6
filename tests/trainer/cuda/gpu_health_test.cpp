// With tests/support/fake_nvml.cpp, which the loader finds by LD_LIBRARY_PATH.

#include "trainer/cuda/gpu_health.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ddprun {
namespace {

class GpuHealthTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("FAKE_NVML"); }  // NOLINT(concurrency-mt-unsafe)
};

TEST_F(GpuHealthTest, TellsWhatTheLibraryDoes) {
  const GpuFigures figures = GpuHealth("0000:1B:00.0").figures();
  EXPECT_EQ(figures.temp_c, 41);
  EXPECT_EQ(figures.power_w, 123.45);
  EXPECT_EQ(figures.utilisation_percent, 97);
  EXPECT_EQ(figures.memory_utilisation_percent, 31);
}

TEST_F(GpuHealthTest, LeavesOutWhatTheLibraryDoesNotTell) {
  const GpuFigures figures = GpuHealth("0000:1C:00.0").figures();
  EXPECT_EQ(figures.temp_c, 42);
  EXPECT_FALSE(figures.power_w);
  EXPECT_FALSE(figures.utilisation_percent);
}

TEST_F(GpuHealthTest, TellsNothingOfAGpuThatIsNotThere) {
  EXPECT_FALSE(GpuHealth("0000:FF:00.0").figures().temp_c);
}

TEST_F(GpuHealthTest, TellsNothingWithoutADriver) {
  ASSERT_EQ(::setenv("FAKE_NVML", "driverless", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_FALSE(GpuHealth("0000:1B:00.0").figures().temp_c);
}

}  // namespace
}  // namespace ddprun
