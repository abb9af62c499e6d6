#include "launcher/ctl/reports/core/memory_log.hpp"

#include "base/check.hpp"
#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "slurm/core/excerpt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 5> kGpuColumns = {
    "timestamp", "index", "name", "memory.used [MiB]", "memory.total [MiB]"};

struct GpuRow {
  std::int64_t gpu = 0;
  double used = 0;
};

Error refused(std::size_t number, std::string_view line, std::string_view why) {
  return format_error(Errc::kCorrupt, "line {}, '{}': {}", number, excerpt(trim(line)), why);
}

/// Memory is never negative.
std::optional<double> parse_memory(std::string_view text) {
  const auto value = parse_double(text);
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<GpuRow> parse_gpu_row(std::string_view line) {
  const auto fields = split(line, ',');
  if (fields.size() != kGpuColumns.size()) return std::nullopt;
  const auto gpu = parse_int<std::int64_t>(trim(fields[1]));
  const auto used = parse_memory(trim(fields[3]));
  if (!gpu || *gpu < 0 || !used) return std::nullopt;
  return GpuRow{.gpu = *gpu, .used = *used};
}

bool is_gpu_header(std::string_view line) {
  return std::ranges::equal(split(line, ','), kGpuColumns, {}, trim);
}

/// The columns of a line, separated by blanks; at most `most`.
std::vector<std::string_view> columns_of(std::string_view line, std::size_t most) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> columns;
  while (columns.size() < most) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    columns.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return columns;
}

/// Calls `take` with every non-empty line and its number; `take` yields why a line is invalid. The
/// last line may lack a newline; then its error is ignored.
template <class Take>
Result<void> for_each_line(std::string_view text, Take take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const bool is_cut = end == std::string_view::npos;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(is_cut ? text.size() : end + 1);
    if (trim(line).empty()) continue;
    const std::string_view why = take(line, number);
    if (!why.empty() && !is_cut) return refused(number, line, why);
  }
  return {};
}

Error no_samples() {
  return make_error(Errc::kCorrupt, "it has no samples");
}

}  // namespace

Result<std::map<std::int64_t, MemorySamples>> parse_gpu_log(std::string_view text) {
  std::map<std::int64_t, MemorySamples> samples;
  // A restarted sampler writes its header again.
  const auto take = [&samples](std::string_view line, std::size_t number) -> std::string_view {
    if (is_gpu_header(line)) return {};
    if (number == 1) return "expected the header of nvidia-smi's table, five columns";
    const auto row = parse_gpu_row(line);
    if (!row) return "expected five columns, the second a GPU's index, the fourth a number of MiB";
    samples[row->gpu].push_back(row->used);
    return {};
  };
  const auto read = for_each_line(text, take);
  if (!read) return read.error();
  if (samples.empty()) return no_samples();
  return samples;
}

Result<MemorySamples> parse_cpu_log(std::string_view text) {
  constexpr std::size_t kRealMemory = 2;
  MemorySamples samples;
  const auto take = [&samples](std::string_view line, std::size_t /*number*/) -> std::string_view {
    if (trim(line).starts_with('#')) return {};
    const auto columns = columns_of(line, kRealMemory + 1);
    const auto memory =
        columns.size() > kRealMemory ? parse_memory(columns[kRealMemory]) : std::nullopt;
    if (!memory) return "expected at least three columns, the third a number of MB";
    samples.push_back(*memory);
    return {};
  };
  const auto read = for_each_line(text, take);
  if (!read) return read.error();
  if (samples.empty()) return no_samples();
  return samples;
}

MemoryUse memory_use(const MemorySamples& samples, Warmup warmup) {
  DDPRUN_CHECK(!samples.empty());
  MemoryUse use{.peak = std::ranges::max(samples), .average = 0, .modes = {}};
  const auto is_warm = [half = use.peak / 2](double sample) { return sample >= half; };
  auto begin = samples.begin();
  if (warmup == Warmup::kLeftOut) begin = std::ranges::find_if(samples, is_warm);
  use.average =
      std::accumulate(begin, samples.end(), 0.0) / static_cast<double>(samples.end() - begin);

  std::map<double, std::size_t> counts;
  std::size_t most = 0;
  for (auto sample = begin; sample != samples.end(); ++sample) {
    most = std::max(most, ++counts[*sample]);
  }
  for (const auto& [value, count] : counts) {
    if (count == most) use.modes.push_back(value);
  }
  return use;
}

std::string modes_text(const MemoryUse& use) {
  return fmt::format("{:.0f}", fmt::join(use.modes, ", "));
}

std::string gpu_use_line(std::string_view log_name, std::int64_t gpu, const MemoryUse& use) {
  return fmt::format(
      "[{} - GPU {}] Peak = {:.0f} MiB, Avg = {:.2f} MiB, Mode = {} MiB\n",
      log_name,
      gpu,
      use.peak,
      use.average,
      modes_text(use));
}

std::string cpu_use_lines(const MemoryUse& use) {
  return fmt::format(
      "   Peak =    {:.0f} MB\n   Average = {:.2f} MB\n   Mode =    {} MB\n",
      use.peak,
      use.average,
      modes_text(use));
}

}  // namespace ddprun
