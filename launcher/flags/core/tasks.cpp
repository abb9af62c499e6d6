#include "launcher/flags/core/tasks.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"
#include "launcher/flags/core/arguments.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace ddprun {
namespace {

constexpr char kElement[] = "SLURM_ARRAY_TASK_ID";

/// A flag that must be left out or have one of two values.
struct Restriction {
  std::string_view flag;
  std::array<std::string_view, 2> allowed;
  std::string_view reason;
};

constexpr std::array kRestrictions = {
    Restriction{
        .flag = "nproc-per-node", .allowed = {"1", ""}, .reason = "each job has one worker"},
    Restriction{
        .flag = "nnodes", .allowed = {"1", "1:1"}, .reason = "each job has one node, this one"},
    Restriction{
        .flag = "rdzv-endpoint", .allowed = {}, .reason = "each job has a free port of its own"},
    Restriction{
        .flag = "master-port",
        .allowed = {"0", ""},
        .reason = "each job has a free port of its own"},
    Restriction{
        .flag = "requeue",
        .allowed = {"never", ""},
        .reason = "one of several jobs cannot start all of them again"}};

}  // namespace

std::int64_t TaskPlace::id() const {
  return std::int64_t{element.value_or(0)} * beside + index;
}

Result<std::int64_t> TaskPlace::row() const {
  if (!element && beside == 1) {
    return invalid_argument(
        "cannot choose a row: {} is not set; submit a job array (sbatch --array=1-N), set it, "
        "or give --independent",
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

Result<void> fill_for_independent(const std::optional<Allocation>& step, CommandLine& line) {
  const auto independent = line.given.find("independent");
  if (independent == line.given.end()) return {};
  const std::string& source = independent->second.source;
  for (const Restriction& restriction : kRestrictions) {
    const auto given = line.given.find(restriction.flag);
    if (given == line.given.end()) continue;
    const bool is_allowed =
        std::ranges::find(restriction.allowed, given->second.text) != restriction.allowed.end();
    if (is_allowed && !given->second.text.empty()) continue;
    return invalid_argument(
        "{} '{}' with {}: {}; leave one of them out",
        given->second.source,
        given->second.text,
        source,
        restriction.reason);
  }
  if (step && step->tasks() > 1) {
    return invalid_argument(
        "{}: starts all jobs by itself, but this Slurm step has {} tasks; give srun "
        "--nodes=1 --ntasks=1",
        source,
        step->tasks());
  }
  line.given.try_emplace("nproc-per-node", Given{.text = "1", .source = source});
  line.given.try_emplace("nnodes", Given{.text = "1", .source = source});
  return {};
}

Result<std::vector<std::optional<std::string>>> share_devices(
    int count, int gpus, const Environment& environment) {
  const auto jobs = static_cast<std::size_t>(count);
  std::vector<std::optional<std::string>> devices;
  const auto named = environment.find(contract::kCudaVisibleDevices);
  if (named == environment.end()) {
    for (int gpu = 0; gpu < gpus; ++gpu)
      devices.emplace_back(fmt::to_string(gpu));
  } else if (!named->second.empty()) {
    for (const std::string_view entry : split(named->second, ','))
      devices.emplace_back(trim(entry));
  }
  if (!devices.empty() && devices.size() < jobs) {
    return invalid_argument(
        "--independent '{}': each job gets a GPU, but only {} are visible; start fewer jobs, "
        "or list one GPU per job in {} (a GPU may appear twice)",
        count,
        devices.size(),
        contract::kCudaVisibleDevices);
  }
  devices.resize(jobs);
  return devices;
}

}  // namespace ddprun
