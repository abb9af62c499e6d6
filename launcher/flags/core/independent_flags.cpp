#include "launcher/flags/core/independent_flags.hpp"

#include "base/format_error.hpp"
#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace ddprun {
namespace {

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
        "or "
        "list one GPU per job in {} (a GPU may appear twice)",
        count,
        devices.size(),
        contract::kCudaVisibleDevices);
  }
  devices.resize(jobs);
  return devices;
}

}  // namespace ddprun
