#include "agent/core/step_meter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ddprun {
namespace {

constexpr std::int64_t kStepMax = 1'000'000'000'000'000;  // as a message may have
constexpr std::int64_t kMeanOverNs = 1'000'000'000;
constexpr std::int64_t kLongest = 1'000'000'000LL * 86'400 * 365;

/// The number that the script has told, else the count.
std::int64_t step_of(const contract::StepSlot& slot) {
  const std::int64_t step = slot.reported > 0 ? slot.reported - 1 : slot.steps;
  return std::clamp<std::int64_t>(step, 0, kStepMax);
}

}  // namespace

std::vector<StepReport> StepMeter::read(
    std::span<const contract::StepSlot> slots, std::int64_t now_ns) {
  std::vector<StepReport> steps;
  since_.resize(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const contract::StepSlot& slot = slots[i];
    const bool is_busy = slot.busy_until > now_ns;
    const std::int64_t at = std::clamp<std::int64_t>(slot.stepped_at, 0, now_ns);
    if (at == 0 && !is_busy) continue;
    StepReport& worker = steps.emplace_back();
    worker.local_rank = static_cast<int>(i);
    worker.step = step_of(slot);
    if (is_busy) {
      worker.busy_with.assign(slot.busy_with, ::strnlen(slot.busy_with, sizeof(slot.busy_with)));
      if (worker.busy_with.empty()) worker.busy_with = "busy";
    }
    if (at == 0) continue;
    worker.age = Duration(std::min(now_ns - at, kLongest));
    Mark& since = since_[i];
    if (since.at == 0 || worker.step < since.step) since = {.step = worker.step, .at = at};
    const std::int64_t made = worker.step - since.step;
    const std::int64_t took = std::max<std::int64_t>(0, at - since.at);
    worker.step_time = since.step_time;
    const bool is_first = since.step_time == Duration();
    if (made == 0 || (took < kMeanOverNs && !is_first)) continue;
    worker.step_time = Duration(std::min(took / made, kLongest));
    if (took >= kMeanOverNs) since = {.step = worker.step, .at = at, .step_time = worker.step_time};
  }
  return steps;
}

}  // namespace ddprun
