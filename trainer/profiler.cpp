#include "trainer/profiler.hpp"

#include "base/standard_streams.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace torch::autograd::profiler {
// From profiler/kineto_shim.h, which includes Kineto headers that some wheels lack.
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}  // namespace torch::autograd::profiler

namespace ddprun {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

/// Without stacks and modules: Kineto sees none in C++.
ProfilerConfig config() {
  return ProfilerConfig(
      ProfilerState::KINETO,
      /*report_input_shapes=*/true,
      /*profile_memory=*/true,
      /*with_stack=*/false,
      /*with_flops=*/true);
}

std::set<ActivityType> activities(bool has_gpu) {
  std::set<ActivityType> wanted = {ActivityType::CPU};
  if (has_gpu) wanted.insert(ActivityType::CUDA);
  return wanted;
}

/// Wall-clock time: files of several starts must have different names.
std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::unique_ptr<Profiler>> Profiler::open(
    std::string directory, const ProfileSchedule& schedule, const Context& context) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return make_errno_error(error.value(), directory);
  return std::unique_ptr<Profiler>(new Profiler(std::move(directory), schedule, context));
}

Profiler::Profiler(std::string directory, const ProfileSchedule& schedule, const Context& context)
    : directory_(std::move(directory)),
      schedule_(schedule),
      context_(context),
      has_gpu_(!context.device->place().is_cpu()) {}

Profiler::~Profiler() = default;

void Profiler::begin_step() {
  const ProfileAction action = profile_action(schedule_, step_);
  if (action == ProfileAction::kRest) return;
  if (stage_ == Stage::kIdle) warm_up();
  if (action == ProfileAction::kWarmUp) return;
  if (stage_ == Stage::kWarm) record();
  step_range_.emplace(at::RecordScope::USER_SCOPE);
  if (step_range_->isActive()) step_range_->before(fmt::format("ProfilerStep#{}", step_));
}

void Profiler::end_step() {
  step_range_.reset();
  const ProfileAction action = profile_action(schedule_, step_);
  if (action == ProfileAction::kSave) save();
  ++step_;
}

void Profiler::warm_up() {
  kineto::prepareProfiler(config(), activities(has_gpu_));
  stage_ = Stage::kWarm;
}

void Profiler::record() {
  kineto::enableProfiler(config(), activities(has_gpu_));
  // Metadata that TensorBoard's plugin needs to show shapes, memory and ranks.
  kineto::addMetadataJson("record_shapes", "1");
  kineto::addMetadataJson("profile_memory", "1");
  kineto::addMetadataJson("with_flops", "1");
  kineto::addMetadataJson(
      "distributedInfo",
      fmt::format(
          R"({{"backend": "{}", "rank": {}, "world_size": {}}})",
          has_gpu_ ? "nccl" : "gloo",
          context_.rank,
          context_.world));
  stage_ = Stage::kRecording;
  first_step_ = step_;
}

/// REQUIRES: stage_ is kRecording.
void Profiler::save() {
  stage_ = Stage::kIdle;
  const auto path = std::filesystem::path(directory_) / trace_file_name(context_.rank, wall_ns());
  context_.device->synchronise();  // otherwise the last kernels are missing
  kineto::disableProfiler()->save(path.string());
  std::error_code error;
  if (std::filesystem::file_size(path, error) > 0 && !error) {  // Kineto reports no errors
    if (context_.rank != 0) return;
    write_stderr(fmt::format(
        "ddptrain: profile of steps {} to {}: {}\n", first_step_ + 1, step_ + 1, path.string()));
    return;
  }
  write_stderr(fmt::format(
      "ddptrain: rank {}: no profile of steps {} to {}: cannot write '{}'; training continues\n",
      context_.rank,
      first_step_ + 1,
      step_ + 1,
      path.string()));
}

void Profiler::finish() {
  step_range_.reset();
  if (stage_ == Stage::kWarm) {
    // The only way to make Kineto discard what it prepared.
    kineto::enableProfiler(config(), activities(has_gpu_));
    static_cast<void>(kineto::disableProfiler());
    stage_ = Stage::kIdle;
  }
  if (stage_ != Stage::kRecording) return;
  --step_;  // the last completed step
  save();
  ++step_;
}

}  // namespace ddprun
