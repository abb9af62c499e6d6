#include "trainer/core/burn_in.hpp"

#include "trainer/core/python_text.hpp"

#include <fmt/format.h>

namespace ddprun {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

void add_if_known(std::string& line, std::string_view name, const std::optional<double>& value) {
  if (value) line += fmt::format(" {}={}", name, python_fixed(*value, 1));
}

}  // namespace

std::string burn_in_line(const BurnInMoment& moment) {
  std::string line = fmt::format(
      "burn-in iteration={} loss={} samples_per_s={:.1f}",
      moment.iteration,
      python_fixed(moment.loss, 6),
      moment.samples_per_s);
  add_if_known(line, "tokens_per_s", moment.tokens_per_s);
  line += fmt::format(" elapsed_s={:.1f} remaining_s={:.1f}", moment.elapsed_s, moment.remaining_s);
  if (moment.peak_rss_bytes > 0) {
    line += fmt::format(" peak_rss_mib={}", moment.peak_rss_bytes / kMiB);
  }
  if (!moment.gpu) return line;
  const GpuFigures& gpu = *moment.gpu;
  line += fmt::format(
      " allocated_mib={} reserved_mib={} max_allocated_mib={}",
      gpu.allocated_bytes / kMiB,
      gpu.reserved_bytes / kMiB,
      gpu.max_allocated_bytes / kMiB);
  add_if_known(line, "gpu_percent", gpu.utilisation_percent);
  add_if_known(line, "gpu_memory_percent", gpu.memory_utilisation_percent);
  add_if_known(line, "temp_c", gpu.temp_c);
  add_if_known(line, "power_w", gpu.power_w);
  return line;
}

}  // namespace ddprun
