#include "launcher/flags/core/independent_flags.hpp"

#include "base/parse.hpp"
#include "base/worker_contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace ddprun {
namespace {

/// A flag that is fine with one of two values, or left out.
struct Wish {
  std::string_view flag;
  std::array<std::string_view, 2> fine;
  std::string_view otherwise;
};

constexpr std::array kWishes = {
    Wish{.flag = "nproc-per-node", .fine = {"1", ""}, .otherwise = "each job has one worker"},
    Wish{.flag = "nnodes", .fine = {"1", "1:1"}, .otherwise = "each job has one node, this one"},
    Wish{.flag = "rdzv-endpoint", .fine = {}, .otherwise = "each job has a free port of its own"},
    Wish{
        .flag = "master-port",
        .fine = {"0", ""},
        .otherwise = "each job has a free port of its own"},
    Wish{
        .flag = "requeue",
        .fine = {"never", ""},
        .otherwise = "one of several jobs cannot start all of them again"}};

}  // namespace

Result<void> fill_for_independent(const std::optional<Allocation>& step, CommandLine& line) {
  const auto independent = line.given.find("independent");
  if (independent == line.given.end()) return {};
  const std::string& source = independent->second.source;
  for (const Wish& wish : kWishes) {
    const auto given = line.given.find(wish.flag);
    if (given == line.given.end()) continue;
    const bool is_fine = std::ranges::find(wish.fine, given->second.text) != wish.fine.end();
    if (is_fine && !given->second.text.empty()) continue;
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{} '{}' with {}: {}; leave one of them out",
            given->second.source,
            given->second.text,
            source,
            wish.otherwise));
  }
  if (step && step->tasks() > 1) {
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "{}: it starts all jobs by itself, and this step of Slurm's has {} tasks; give srun "
            "--nodes=1 --ntasks=1",
            source,
            step->tasks()));
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
    return make_error(
        Errc::kInvalidArgument,
        fmt::format(
            "--independent '{}': {} GPUs are visible, and each job gets one; start fewer, or name "
            "one for each in {}, where a GPU may stand twice",
            count,
            devices.size(),
            contract::kCudaVisibleDevices));
  }
  devices.resize(jobs);
  return devices;
}

}  // namespace ddprun
