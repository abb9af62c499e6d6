#pragma once

// Statistics of the memory logs of a job. Logs and lines are those of KAUST's workshop on
// distributed training and its tool analyze_memory, so logs and reports of both can be mixed.
//
//   GPU: "timestamp, index, name, memory.used [MiB], memory.total [MiB]", a row for each GPU and
//        tick
//   CPU: "# ..." and columns: seconds since the start, CPU %, real MB, virtual MB
//
// agent/core/memory_rows.hpp writes them. A sampler may be killed with its job: a truncated last
// line is skipped.
// cut off is left out.

#include "base/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// In MiB or MB, in the order of the log; at least one, none below 0.
using MemorySamples = std::vector<double>;

/// The samples of each GPU by its index. Fails with kCorrupt, with line and reason, and if there is
/// no sample.
Result<std::map<std::int64_t, MemorySamples>> parse_gpu_log(std::string_view text);

/// The real memory. Fails as parse_gpu_log() does.
Result<MemorySamples> parse_cpu_log(std::string_view text);

struct MemoryUse {
  double peak = 0;
  double average = 0;
  std::vector<double> modes;  // the most frequent values, all of them, ascending

  bool operator==(const MemoryUse&) const = default;
};

/// Whether to count the samples before the first of at least half the peak, when the job is still
/// loading its program and its data.
enum class Warmup : std::uint8_t { kCounted, kLeftOut };

/// REQUIRES: there are samples.
MemoryUse memory_use(const MemorySamples& samples, Warmup warmup);

/// "26532, 26540": the modes as whole numbers.
std::string modes_text(const MemoryUse& use);

/// "[gpu_memory_log - GPU 0] Peak = 26532 MiB, Avg = 17919.40 MiB, Mode = 26532 MiB".
std::string gpu_use_line(std::string_view log_name, std::int64_t gpu, const MemoryUse& use);

/// Three lines: peak, average, mode.
std::string cpu_use_lines(const MemoryUse& use);

}  // namespace ddprun
