#include "launcher/flags/core/tasks.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "launcher/flags/core/arguments.hpp"

namespace ddprun {
namespace {

constexpr char kElement[] = "SLURM_ARRAY_TASK_ID";

}  // namespace

std::int64_t TaskPlace::id() const {
  return std::int64_t{element.value_or(0)} * beside + index;
}

Result<std::int64_t> TaskPlace::row() const {
  if (!element && beside == 1) {
    return invalid_argument(
        "cannot choose a row: {} is not set; submit a job array (sbatch --array=1-N), set it, "
        "or "
        "give --independent",
        kElement);
  }
  if (element == 0U) {
    return invalid_argument("{} '0': rows are counted from 1; submit with --array=1-N", kElement);
  }
  return (std::int64_t{element.value_or(1)} - 1) * beside + index + 1;
}

Result<std::optional<std::uint32_t>> array_element(const Environment& environment) {
  const auto found = environment.find(kElement);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  const auto number = parse_int<std::uint32_t>(found->second);
  if (number) return number;
  return invalid_argument("{} '{}': expected a number; unset it", kElement, found->second);
}

Result<std::vector<std::string>> arguments_of_row(std::string_view grid, std::int64_t row) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors begin a file with it
  if (grid.starts_with(kByteOrderMark)) grid.remove_prefix(kByteOrderMark.size());
  std::int64_t rows = 0;
  for (const std::string_view line : split(grid, '\n')) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#' || ++rows < row) continue;
    auto arguments = split_arguments(content);
    if (arguments) return arguments;
    return format_error(Errc::kCorrupt, "row {}: {}", row, arguments.error().detail);
  }
  return format_error(Errc::kCorrupt, "row {} does not exist; the file has {} rows", row, rows);
}

}  // namespace ddprun
